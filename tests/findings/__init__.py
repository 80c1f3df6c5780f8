"""Tests of the catalogue of findings."""
