"""The library as an outsider uses it: these tests know ``import rmqtool`` and nothing below it."""

from __future__ import annotations
