"""DOOR. Options, one module per command, and the exit status; nothing else.

`main` is the outermost function. Commands are imported when they are called for, so that ``--help`` and a
wrong option cost a few milliseconds.
"""

from __future__ import annotations

from rmqtool.cli.entry import main

__all__ = ["main"]
