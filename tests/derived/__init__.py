"""Readers of derived files."""
