"""Tests of the seam for bytes: what every source does, and the files of this machine with care."""
