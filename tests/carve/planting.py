"""Images for tests: records of known number amid noise, and what a carving of them gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.carve.images import open_image, search
from rmqtool.carve.layout import Layout, lay_out
from rmqtool.formats.message import MAGIC_V1, MAGIC_V2
from tests.builders import InlineEngine, LogBuilder
from tests.io.memory import MemoryFile, MemorySource
from tests.scan.log_builder import STORE_TIMESTAMP_MS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from rmqtool.carve.images import Image

from rmqtool.io import Location


@dataclass
class Planted:
    """A log, and where each of its records begins.

    Attributes:
        log: its bytes, from physical offset ``log.start`` on.
        host: the broker's address as text.
        records: raw records by physical offset.
    """

    log: LogBuilder
    host: str
    records: dict[int, bytes] = field(default_factory=dict)

    @property
    def files(self) -> dict[int, bytes]:
        return self.log.files()


def host(number: int) -> dict[str, Any]:
    """Return the store host of a broker."""
    return {"address": bytes([10, 0, 0, number]), "port": 10911}


def planted(
    rng: random.Random,
    records: int,
    *,
    file_size: int,
    broker: int = 1,
    start: int = 0,
    first_ms: int = STORE_TIMESTAMP_MS,
    largest_body: int = 1200,
) -> Planted:
    """Write a log of records of all kinds, store times rising."""
    found = Planted(LogBuilder(file_size, start), f"10.0.0.{broker}:10911")
    for number in range(records):
        fields: dict[str, Any] = {
            "body": rng.randbytes(rng.randrange(largest_body)),
            "storeTimestamp": first_ms + number,
            "queueOffset": number,
            "storeHost": host(broker),
        }
        kind = rng.randrange(10)
        if kind == 0:
            fields |= {"magic": MAGIC_V2, "topic": b"T" * rng.randrange(128, 300)}
        elif kind == 1:
            fields["body"] = b""
        elif kind == 2:
            fields |= {"sysFlag": 0x10}
        place = found.log.add(**fields)
        found.records[place] = bytes(found.log.data[place - start :])
    return found


def images_of(data: Sequence[bytes]) -> list[Image]:
    """Return images of bytes at hand."""
    files = {f"/images/{number}": MemoryFile(one) for number, one in enumerate(data)}
    source = MemorySource("/images", files)
    return [open_image(number, Location(source, name)) for number, name in enumerate(files)]


def carved(
    *data: bytes, file_size: int | None = None, range_bytes: int = 1 << 26, one_log: bool = False
) -> Layout:
    """Search images of bytes at hand, and tell apart what is found."""
    images = images_of(data)
    found = search(images, InlineEngine(), range_bytes=range_bytes)
    return lay_out(found.rows, images, file_size, one_log=one_log)


def places(layout: Layout, number: int = 0) -> list[int]:
    """Return the physical offsets of a log's records."""
    return [int(place) for place in layout.logs[number].rows["log_offset"]] if layout.logs else []


def check_true(layout: Layout, data: Sequence[bytes], logs: Sequence[Planted]) -> None:
    """Assert that each record of a result is a planted one, byte for byte, and that none overlaps another."""
    for log in layout.logs:
        rows = log.rows
        stops = rows["log_offset"] + rows["total_size"]
        assert (stops[:-1] <= rows["log_offset"][1:]).all()
        for row in rows:
            position, size = int(row["position"]), int(row["total_size"])
            raw = data[int(row["image"])][position : position + size]
            assert any(one.records.get(int(row["log_offset"])) == raw for one in logs)


def whole_records(data: Sequence[bytes], log: Planted) -> set[int]:
    """Return which records of a log are whole somewhere."""
    whole = set()
    for one in data:
        for magic in (MAGIC_V1, MAGIC_V2):
            wanted = magic.to_bytes(4, "big", signed=True)
            at = one.find(wanted)
            while at >= 0:
                place = int.from_bytes(one[at + 24 : at + 32])
                raw = log.records.get(place, b"")
                if raw and one[at - 4 : at - 4 + len(raw)] == raw:
                    whole.add(place)
                at = one.find(wanted, at + 1)
    return whole


def amid_noise(rng: random.Random, *parts: bytes) -> bytes:
    """Return parts with noise before, between and after them."""
    pieces = [rng.randbytes(rng.randrange(1, 9000))]
    for part in parts:
        pieces += [part, rng.randbytes(rng.randrange(1, 9000))]
    return b"".join(pieces)


def overwrite(rng: random.Random, data: bytes, share: float, block: int = 4096) -> bytes:
    """Return bytes of which a share of blocks is something else: noise, zeros, or text."""
    blocks = np.frombuffer(data + bytes(-len(data) % block), np.uint8).reshape(-1, block).copy()
    for number in rng.sample(range(len(blocks)), int(share * len(blocks))):
        kind = rng.randrange(3)
        if kind == 0:
            blocks[number] = np.frombuffer(rng.randbytes(block), np.uint8)
        else:
            blocks[number] = 0 if kind == 1 else 0x61
    return blocks.tobytes()[: len(data)]
