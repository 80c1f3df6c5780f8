"""Tests of places, settings and staging."""
