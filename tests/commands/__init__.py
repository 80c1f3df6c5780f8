"""The meaning of the commands, without their door: typed rows and reports."""

from __future__ import annotations
