"""Tests of `rmqtool.check`."""

from __future__ import annotations
