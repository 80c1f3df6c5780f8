"""What salvage makes has nothing that salvage would make anew: any field of a record damaged, and verified.

``python -m tests.salvage.fixed_point [FIRST STOP]`` tries seeds, and prints those whose result is not sound.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.actions.verification import verify
from rmqtool.check import VerifyRequest
from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.findings import Severity
from rmqtool.progress import NullProgress
from rmqtool.store import open_store
from tests.builders import InlineEngine
from tests.damage.places import Places
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORES = (
    *("plain-5.3.3", "transaction-5.3.3", "batchcq-5.3.3", "ipv6-5.5.1", "propcrc-5.5.1", "lmq-5.5.1"),
    *("plain-4.9.8", "batch-5.3.3", "batchcq-5.5.1", "plain-5.5.1", "delay-5.5.1", "unicode-4.9.8"),
    *("transaction-4.9.8", "v2-5.5.1", "ext-5.3.3", "expiredhead-5.3.3", "crash-5.3.3", "lmq-4.9.8"),
    *("transaction-5.5.1", "batchcq-5.4.0", "delay-4.9.8", "segments-5.5.1"),
)
"""Fixtures with all forms of records and queues."""
_FIELDS = (
    *("totalSize", "magic", "bodyCrc", "queueId", "flag", "queueOffset", "physicalOffset", "sysFlag"),
    *("bornTimestamp", "bornHost", "storeTimestamp", "storeHost", "reconsumeTimes"),
    *("preparedTransactionOffset", "bodyLength", "body", "topicLength", "topic", "propertiesLength"),
    *("properties", "name", "value", "rest", "record", "neighbours"),
)


def _flipped(old: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(old))
    return old[:at] + bytes([old[at] ^ 1 << chance.randrange(8)]) + old[at + 1 :]


def _other_byte(old: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(old))
    return old[:at] + chance.randbytes(1) + old[at + 1 :]


def _added(old: bytes, more: int) -> bytes:
    value = int.from_bytes(old, "big") + more
    return (value % (1 << 8 * len(old))).to_bytes(len(old), "big")


def _zeroed(old: bytes, start: int, stop: int) -> bytes:
    return old[:start] + bytes(stop - start) + old[stop:]


_DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "zero": lambda old, _: bytes(len(old)),
    "ones": lambda old, _: b"\xff" * len(old),
    "garbage": lambda old, chance: chance.randbytes(len(old)),
    "flip": _flipped,
    "byte": _other_byte,
    "less": lambda old, chance: _added(old, -chance.choice((1, 7, 8, 20))),
    "more": lambda old, chance: _added(old, chance.choice((1, 7, 8, 20))),
    "zero tail": lambda old, chance: _zeroed(old, chance.randrange(len(old)), len(old)),
    "zero head": lambda old, chance: _zeroed(old, 0, chance.randrange(len(old)) + 1),
}


def _span(places: Places, number: int, field: str, chance: random.Random) -> tuple[str, int, int]:
    """Return file, position and length of a part of a record."""
    record = places.records[number]
    whole = places.of_record(record)
    if field in {"record", "neighbours", "rest"}:
        room = (places.root / whole.file).stat().st_size - whole.position
        length = {"record": whole.length, "neighbours": whole.length + chance.choice((20, 90, 400))}
        start = chance.randrange(whole.length) if field == "rest" else 0
        return whole.file, whole.position + start, min(length.get(field, whole.length - start), room)
    if field in {"name", "value"}:
        at = places.of_record(record, "properties")
        pieces = list(_pieces(record.raw[len(record.raw) - at.length :]))
        if not pieces:
            return whole.file, whole.position, 0
        name, value, end = chance.choice(pieces)
        start, stop = (name, value - 1) if field == "name" else (value, end)
        return at.file, at.position + start, stop - start
    at = places.of_record(record, field)
    return at.file, at.position, at.length


def _pieces(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where name and value of each property begin, and where it ends."""
    at = 0
    for piece in data.split(b"\2"):
        if b"\1" in piece:
            yield at, at + piece.index(b"\1") + 1, at + len(piece)
        at += len(piece) + 1


def damaged(root: Path, store: Path, chance: random.Random) -> str:
    """Copy a store, and damage one part of one record; return what was done."""
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    shutil.copytree(store, root, ignore=papers)
    places = _places(store)
    number, field = chance.randrange(len(places.records)), chance.choice(_FIELDS)
    how = chance.choice(sorted(_DAMAGES))
    file, at, length = _span(places, number, field, chance)
    path = root / file
    data = path.read_bytes()
    if length:
        new = _DAMAGES[how](data[at : at + length], chance)
        path.write_bytes(data[:at] + new + data[at + length :])
    derived = chance.random() < 0.3
    if derived:
        for name in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index"):
            shutil.rmtree(root / name, ignore_errors=True)
    return f"{store.name}: record {number}: {how} {field}{', no queues' if derived else ''}"


_KNOWN: dict[Path, Places] = {}


def _places(store: Path) -> Places:
    return _KNOWN.setdefault(store, Places(store))


def errors_after(seed: int, folder: Path, name: str | None = None) -> tuple[str, list[str]]:
    """Damage, salvage and verify what a seed names; return what was done, and the errors of the result.

    ``name`` is of a fixture; the seed names one, too.
    """
    chance = random.Random(seed)
    store = fixture(name or STORES[seed % len(STORES)])
    done = damaged(folder / "damaged", store, chance)
    conf, out, engine = store / "broker.conf", folder / "out", InlineEngine()
    salvage(SalvageRequest((open_store(folder / "damaged", broker_conf=conf),), engine), out, NullProgress())
    unchecked = ["checkCRCOnRecover=false"]  # which a record without checksum needs
    made = open_store(out, broker_conf=conf, properties=unchecked)
    report = verify(VerifyRequest(made, engine=engine), NullProgress())
    shutil.rmtree(folder)
    errors = [one for one in report.findings if one.severity is Severity.ERROR]
    return done, [f"{one.code.code}: {one.message}" for one in errors]


def main(first: int = 0, stop: int = 200) -> None:
    """Try seeds, and print what is not sound."""
    for seed in range(first, stop):
        with tempfile.TemporaryDirectory() as folder:
            done, errors = errors_after(seed, Path(folder) / "one")
        if errors:
            sys.stdout.write(f"{seed} {done}\n" + "".join(f"    {one}\n" for one in errors[:3]))
            sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
