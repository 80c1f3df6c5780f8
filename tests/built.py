"""What tests fetch and compile once, outside the tree."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def cache(room: str) -> Path:
    """Return where a room of the tests keeps such things; for `broker`, `RMQTOOL_BROKER_CACHE` may say it."""
    given = os.environ.get(f"RMQTOOL_{room.upper()}_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "rmqtool" / room


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """Make a folder that is not there yet; test processes side by side make it once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = target / "done"
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            make(target)
            done.touch()
    return target
