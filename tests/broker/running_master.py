"""What a master's reput builds while it runs, on a log that its own recovery would have cut short.

A start looks at the log's end before reput begins, and truncates it at the first bad record. So the log gets
segments after its end that are good, and the start is made to look at nothing else:

* 4.9.8 (``CommitLog#recoverNormally``) begins with the third last file, and reput with the first.
* 5.x begins with the file that the greatest offset of any consume queue points into, and dispatches what
  it reads. A bait queue points into an empty last segment, and truncation takes the bait away again; since
  5.4 ``commitLogRecoverMaxNum`` keeps a start from going back to a file with a record. 5.3.4 cannot be kept.
  ``duplicationEnable`` lets reput begin at the confirm offset, which is 0 without a checkpoint, and
  ``readUnCommitted`` lets it go on to the log's end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.broker import jvm
from tests.scan.log_builder import blank, record

if TYPE_CHECKING:
    from pathlib import Path

_SEGMENTS_LOOKED_AT = 3
_BAIT = struct.Struct(">qiq")
_RECORDS_A_SEGMENT = 2
_SETTINGS = "duplicationEnable=true\nreadUnCommitted=true\ncommitLogRecoverMaxNum=1\n"

VERSIONS = tuple(version for version in jvm.VERSIONS if version != "5.3.4")
"""The brokers that can be made to build all of a damaged log."""


def extend_log(root: Path, version: jvm.Version) -> None:
    """Add segments after a log's last, so that a start of this version looks only at them."""
    last = sorted((root / "commitlog").iterdir())[-1]
    size, start = last.stat().st_size, int(last.name)
    if not version.startswith("4."):
        _write_segment(root, start + size, bytes(size))
        return
    for number in range(_SEGMENTS_LOOKED_AT):
        start += size
        _write_segment(root, start, _good_segment(start, size, number * _RECORDS_A_SEGMENT))


def rebuild(version: jvm.Version, stores: list[jvm.Found]) -> list[bool]:
    """Let running masters build the derived files of extended logs.

    Returns:
        Whether the whole log was dispatched, by store. Where it was not, what was written stays.
    """
    own = stores if version.startswith("4.") else [_prepared(store) for store in stores]
    rows = jvm.regenerate(version, own)
    return [row["started"] and row["settled"] for row in rows]


def _prepared(store: jvm.Found) -> jvm.Found:
    _lay_bait(store.root)
    conf = store.root / "judge.conf"
    conf.write_text(store.conf.read_text("utf-8") + _SETTINGS, "utf-8")
    return jvm.Found(store.root, conf)


def _lay_bait(root: Path) -> None:
    last = max(int(path.name) for path in (root / "commitlog").iterdir())
    (root / "checkpoint").unlink(missing_ok=True)
    bait = root / "consumequeue" / "Bait" / "0" / f"{0:020d}"
    bait.parent.mkdir(parents=True)
    bait.write_bytes(_BAIT.pack(last, 1, 0).ljust(200, b"\0"))


def _good_segment(start: int, size: int, queue_offset: int) -> bytes:
    data = b""
    for number in range(_RECORDS_A_SEGMENT):
        data += record(start + len(data), topic=b"After", queueOffset=queue_offset + number)
    return data + blank(size - len(data))


def _write_segment(root: Path, start: int, data: bytes) -> None:
    (root / "commitlog" / f"{start:020d}").write_bytes(data)
