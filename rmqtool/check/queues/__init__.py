"""Checks of consume queues, batch consume queues and consume queue ext files against the log."""

from __future__ import annotations
