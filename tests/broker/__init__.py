"""Tests against the real broker: its released store classes make fixtures and judge results."""

from __future__ import annotations
