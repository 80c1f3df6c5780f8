"""States of consume queue ext files in which a broker may find a store."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

from tests.broker.start_cases import Edit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_UNIT = 20
_FILE_UNITS = 10
_ADDRESS_AT = 12
_QUEUE = "Extended/0"


def _files(root: Path) -> list[Path]:
    return sorted((root / "consumequeue_ext" / _QUEUE).iterdir())


def _write(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def _in_file(number: int, position: int, data: bytes) -> Callable[[Path, Path], None]:
    return lambda root, _conf: _write(_files(root)[number], position, data)


def _cut_queue(units: int) -> Callable[[Path, Path], None]:
    """Zero the units of the queue from one on: the last address is then an earlier one."""

    def apply(root: Path, _conf: Path) -> None:
        for path in sorted((root / "consumequeue" / _QUEUE).iterdir()):
            first = int(path.name) // _UNIT
            kept = min(max(units - first, 0), _FILE_UNITS) * _UNIT
            path.write_bytes(path.read_bytes()[:kept].ljust(_FILE_UNITS * _UNIT, b"\0"))

    return apply


def _address(unit: int, change: Callable[[int], int]) -> Callable[[Path, Path], None]:
    """Change the ext address of a unit."""

    def apply(root: Path, _conf: Path) -> None:
        path = root / "consumequeue" / _QUEUE / f"{unit // _FILE_UNITS * _FILE_UNITS * _UNIT:020d}"
        position = unit % _FILE_UNITS * _UNIT + _ADDRESS_AT
        (address,) = struct.unpack_from(">q", path.read_bytes(), position)
        _write(path, position, struct.pack(">q", change(address)))

    return apply


def _last_address(change: Callable[[int], int]) -> Callable[[Path, Path], None]:
    """Change the ext address of the queue's fifth unit, now its last."""

    def apply(root: Path, conf: Path) -> None:
        _cut_queue(5)(root, conf)
        _address(4, change)(root, conf)

    return apply


def _without_segments(count: int) -> Callable[[Path, Path], None]:
    def apply(root: Path, _conf: Path) -> None:
        for path in sorted((root / "commitlog").iterdir())[:count]:
            path.unlink()

    return apply


def _without_log_and_head(root: Path, conf: Path) -> None:
    """Lose files of the log and the queue's first files: the minimum has an address in a later ext file."""
    _without_segments(2)(root, conf)
    for path in sorted((root / "consumequeue" / _QUEUE).iterdir())[:2]:
        path.unlink()


EXT_EDITS: tuple[Edit, ...] = (
    Edit("as it is", lambda _root, _conf: None),
    *(Edit(f"queue cut to {units} units", _cut_queue(units)) for units in (0, 1, 5, 9, 10, 11, 25)),
    Edit("ext size runs over the next unit", _in_file(0, 20, b"\x00\x15")),
    Edit("ext size runs out of the file", _in_file(1, 0, b"\x7f\xff")),
    Edit("ext size runs out of the last file", _in_file(-1, 0, b"\x7f\xff")),
    Edit("ext unit of zeros", _in_file(1, 0, bytes(60))),
    Edit("no end mark", _in_file(0, 180, b"\x00\x14")),
    Edit("units up to the end", _in_file(0, 180, b"\x00\x14" + bytes(18))),
    Edit("bit map runs out of the file", _in_file(0, 4 * 20 + 18, b"\x7f\xff")),
    Edit("last address before the files", _last_address(lambda _: -(1 << 63))),
    Edit("last address at the end of a file", _last_address(lambda _: -(1 << 63) + 199)),
    Edit("last address near the end of a file", _last_address(lambda _: -(1 << 63) + 184)),
    Edit("last address after the files", _last_address(lambda _: -(1 << 63) + 100_000)),
    Edit("last address inside a unit", _last_address(lambda address: address + 1)),
    Edit("first ext file missing", lambda root, _conf: _files(root)[0].unlink()),
    Edit("middle ext file missing", lambda root, _conf: _files(root)[1].unlink()),
    Edit("last ext file missing", lambda root, _conf: _files(root)[-1].unlink()),
    Edit("ext files missing", lambda root, _conf: shutil.rmtree(root / "consumequeue_ext")),
    Edit("queue missing", lambda root, _conf: shutil.rmtree(root / "consumequeue" / _QUEUE)),
    Edit("short ext file", lambda root, _conf: os.truncate(_files(root)[0], 100)),
    Edit("empty last ext file", lambda root, _conf: os.truncate(_files(root)[-1], 0)),
    Edit("first segment missing", _without_segments(1)),
    Edit("two segments missing", _without_segments(2)),
    Edit("two segments and the queue's head missing", _without_log_and_head),
    Edit("no segment left", _without_segments(99)),
)
