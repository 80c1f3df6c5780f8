"""Tests of places, settings, reading and staging."""
