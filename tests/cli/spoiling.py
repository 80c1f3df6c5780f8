"""Damage done to copies of stores, and proof that nothing else was."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from rmqtool.formats.consumequeue import UNIT_SIZE

if TYPE_CHECKING:
    from pathlib import Path

LOG_FILE = "commitlog/00000000000000008192"


def spoil_log(store: Path) -> None:
    """Flip a bit in the body of a record."""
    path = store / LOG_FILE
    data = bytearray(path.read_bytes())
    dumped = subprocess.run(
        [sys.executable, "-m", "rmqtool", "dump", path, "--format", "ndjson", "--body", "hex"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    records = [json.loads(line) for line in dumped.splitlines()]
    record = next(one for one in records if one["type"] == "message" and one["bodyLength"] > 4)
    place = data.index(bytes.fromhex(record["body"]), record["position"])
    data[place] ^= 1
    path.write_bytes(data)


def spoil_queue(store: Path) -> Path:
    """Make a unit of a queue point elsewhere."""
    path = store / "consumequeue" / "TopicTest" / "0" / "00000000000000000000"
    data = bytearray(path.read_bytes())
    data[UNIT_SIZE + 7] ^= 1
    path.write_bytes(data)
    return path


def state_of(store: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(store)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in store.rglob("*")
        if path.is_file()
    }
