"""Rows of records."""
