"""Measurements against the real broker; scripts that are run by hand, no tests."""
