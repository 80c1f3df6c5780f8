"""Damage of whole stores, the same for the same seed: kinds of it, alone and together."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.topics import HALF_TOPIC
from tests.broker.log_damage import LogCopy
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Kind = Callable[["Scene"], None]
_QUEUES = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index")
_BLOCK = 512


@dataclass
class Scene:
    """A copy of a store that is being damaged.

    Attributes:
        root: of the copy.
        log: its log before the first edit.
        chance: where choices come from.
        truth: bytes of the records that the log is meant to hold, by physical offset.
        stale: bytes of records that were cut off, of which some may still be there.
        rewritten: physical offset of the record that took their place; None without.
    """

    root: Path
    log: LogCopy
    chance: random.Random
    truth: dict[int, bytes] = field(default_factory=dict)
    stale: dict[int, bytes] = field(default_factory=dict)
    rewritten: int | None = None

    def __post_init__(self) -> None:
        for places in self.log.records:
            for place in places:
                head = self.log.head(place)
                if head.physical_offset == place:
                    self.truth[place] = self.log.read(place, head.total_size)

    def some_record(self) -> int:
        """Return the physical offset of a record."""
        return self.chance.choice(sorted(self.truth))

    def some_block(self) -> tuple[int, int]:
        """Return start and length of an aligned block in the used part of the log."""
        place = self.some_record() // _BLOCK * _BLOCK
        room = self.log.segment_size - place % self.log.segment_size
        return place, min(_BLOCK * self.chance.choice((1, 2, 4, 8)), room)

    def some_segment(self) -> Path:
        """Return a file of the log that is still there."""
        return self.chance.choice([path for path in self.log.segments.values() if path.exists()])

    def put(self, place: int, data: bytes) -> None:
        """Overwrite bytes, if their file is there and long enough."""
        start = place - place % self.log.segment_size
        path = self.log.segments[start]
        if path.exists() and path.stat().st_size >= place - start + len(data):
            self.log.write(place, data)

    def now(self, place: int, length: int) -> bytes:
        """Return bytes as they are now."""
        start = place - place % self.log.segment_size
        path = self.log.segments[start]
        return path.read_bytes()[place - start : place - start + length] if path.exists() else b""

    def may_be(self, place: int, raw: bytes) -> bool:
        """Whether nobody can know that a record was cut off: what was written in its place is lost, too."""
        if self.rewritten is None or self.stale.get(place) != raw:
            return False
        return self.rewritten not in self.survivors()

    def survivors(self) -> dict[int, bytes]:
        """Return the records whose bytes are all still there."""
        return {place: raw for place, raw in self.truth.items() if self.now(place, len(raw)) == raw}


def _flip(scene: Scene, place: int) -> None:
    byte = scene.now(place, 1)
    if byte:
        scene.put(place, bytes([byte[0] ^ 1 << scene.chance.randrange(8)]))


def flip_body(scene: Scene) -> None:
    place = scene.some_record()
    length = max(scene.log.head(place).body_length, 0)
    if length:
        _flip(scene, scene.log.body_at(place) + scene.chance.randrange(length))


def flip_queue_field(scene: Scene) -> None:
    place = scene.some_record()
    _flip(scene, place + scene.chance.choice((*range(12, 16), *range(20, 28))))


def flip_frame(scene: Scene) -> None:
    place = scene.some_record()
    _flip(scene, place + scene.chance.choice((*range(8), *range(28, 36))))


def zero_block(scene: Scene) -> None:
    place, length = scene.some_block()
    scene.put(place, bytes(length))


def garbage_block(scene: Scene) -> None:
    place, length = scene.some_block()
    scene.put(place, scene.chance.randbytes(length))


def lose_segment(scene: Scene) -> None:
    if sum(path.exists() for path in scene.log.segments.values()) > 2:
        scene.some_segment().unlink()


def cut_segment(scene: Scene) -> None:
    path = scene.some_segment()
    with path.open("r+b") as file:
        file.truncate(scene.chance.randrange(path.stat().st_size + 1))


def zero_half(scene: Scene) -> None:
    path = scene.some_segment()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(scene.chance.choice((0, size // 2)))
        file.write(bytes(size // 2))


def break_blank(scene: Scene) -> None:
    if scene.log.blanks:
        _flip(scene, scene.chance.choice(scene.log.blanks) + scene.chance.randrange(8))


def swap_blocks(scene: Scene) -> None:
    one, two = (scene.some_record() // _BLOCK * _BLOCK for _ in range(2))
    first, second = scene.now(one, _BLOCK), scene.now(two, _BLOCK)
    if len(first) == len(second) == _BLOCK:
        scene.put(one, second)
        scene.put(two, first)


def stale_block(scene: Scene) -> None:
    """An older block lies where a newer one should: a write that never reached the disk, or a wrong one."""
    one, two = sorted(scene.some_record() // _BLOCK * _BLOCK for _ in range(2))
    if len(data := scene.now(one, _BLOCK)) == _BLOCK:
        scene.put(two, data)


def rewrite_tail(scene: Scene) -> None:
    """The log was cut and written on from there, shorter: what is behind it are whole records of before."""
    last = [place for place in scene.log.records[-1] if place in scene.truth]
    if len(last) < 4:
        return
    cut = last[len(last) // 2]
    gone = {place for place in scene.truth if place >= cut}
    latest = max(scene.log.head(place).store_timestamp_ms for place in scene.truth)
    ends: dict[tuple[bytes, int], int] = {}
    for place in sorted(scene.truth.keys() - gone):
        head = scene.log.head(place)
        at = scene.log.topic_at(place)
        topic = scene.log.read(at, scene.log.properties_length_at(place) - at)
        if not head.sys_flag & 0x4:
            ends[topic, head.queue_id] = head.queue_offset + 1
    (topic, queue_id), offset = scene.chance.choice(sorted(ends.items()))
    if b"BatchCQ" in (scene.root / "config" / "topics.json").read_bytes():
        return  # a plain message in a queue of batches would be another damage
    if b"%LMQ%" in topic or b"rmq_sys" in topic or len(topic) > 127:
        return
    if topic.endswith(HALF_TOPIC.encode()):
        return  # a half message needs properties with the queue to which it belongs
    new = record(
        cut, physicalOffset=cut, topic=topic, queueId=queue_id, queueOffset=offset,
        storeTimestamp=latest + 60_000, bornTimestamp=latest + 60_000, body=b"written after the cut",
    )  # fmt: skip
    scene.put(cut, new)
    scene.rewritten, scene.stale = cut, {place: raw for place, raw in scene.truth.items() if place > cut}
    scene.truth = {place: raw for place, raw in scene.truth.items() if place < cut}
    scene.truth[cut] = new
    for name in _QUEUES:
        shutil.rmtree(scene.root / name, ignore_errors=True)


KINDS: dict[str, Kind] = {
    function.__name__: function
    for function in (
        flip_body, flip_queue_field, flip_frame, zero_block, garbage_block, lose_segment, cut_segment,
        zero_half, break_blank, swap_blocks, stale_block, rewrite_tail,
    )
}  # fmt: skip


def lie_in_damage(scene: Scene) -> None:
    """A byte of a body, and what the record says of its queue."""
    place = scene.some_record()
    length = max(scene.log.head(place).body_length, 0)
    if length:
        _flip(scene, scene.log.body_at(place) + scene.chance.randrange(length))
        scene.chance.choice((_another_queue_id, _another_letter, _another_offset))(scene, place)


def lie_of_queue_id(scene: Scene) -> None:
    _another_queue_id(scene, scene.some_record())


def lie_of_topic(scene: Scene) -> None:
    _another_letter(scene, scene.some_record())


def lie_of_offset(scene: Scene) -> None:
    _another_offset(scene, scene.some_record())


def _another_queue_id(scene: Scene, place: int) -> None:
    """Other bytes in a queue id: one, or two."""
    for at in scene.chance.sample(range(12, 16), scene.chance.choice((1, 2))):
        _flip(scene, place + at)


def _another_offset(scene: Scene, place: int) -> None:
    for at in {27, scene.chance.randrange(20, 28)}:
        _flip(scene, place + at)


def _another_letter(scene: Scene, place: int) -> None:
    at = scene.log.topic_at(place)
    length = scene.log.properties_length_at(place) - at
    letter = at + scene.chance.randrange(length)
    scene.put(letter, bytes([scene.chance.choice(b"abcXYZ%0")]))


def hide_records(scene: Scene) -> None:
    """An old frame that lies elsewhere than it says runs over whole records, into a later one."""
    chain = [place for place in scene.chance.choice(scene.log.records) if place in scene.truth]
    if len(chain) < 4:
        return
    first = scene.chance.randrange(len(chain) - 3)
    hidden = scene.chance.randint(1, min(3, len(chain) - first - 3))
    start, end = chain[first], chain[first + 1 + hidden]
    if scene.log.head(end).total_size < _BLOCK // 4:
        return
    inside = scene.now(chain[first + 1], end - chain[first + 1])
    old = {
        "physicalOffset": scene.some_record() + 8 * scene.log.segment_size,
        "storeTimestamp": scene.log.head(start).store_timestamp_ms - 9000,
        "properties": b"",
    }
    length = end - start + _BLOCK // 8
    body = bytes(length - len(record(start, body=b"", **old)))
    scene.put(start, record(start, body=body, **old))
    scene.put(chain[first + 1], inside)


def other_property(scene: Scene) -> None:
    """A byte of the properties."""
    place = scene.some_record()
    start = scene.log.properties_length_at(place) + 2
    stop = place + scene.log.head(place).total_size
    if start < stop:
        _flip(scene, scene.chance.randrange(start, stop))


HEADS: dict[str, Kind] = KINDS | {
    function.__name__: function
    for function in (
        lie_in_damage, lie_of_queue_id, lie_of_topic, lie_of_offset, hide_records, other_property,
    )
}  # fmt: skip
"""All kinds, those of heads that lie, too."""


def lose_topics(scene: Scene) -> None:
    (scene.root / "config" / "topics.json").unlink(missing_ok=True)


def wipe_segment(scene: Scene) -> None:
    """A file of the log reads as zeros."""
    path = scene.some_segment()
    path.write_bytes(bytes(path.stat().st_size))


def wipe_queue_file(scene: Scene) -> None:
    if files := _queue_files(scene.root):
        path = scene.chance.choice(files)
        path.write_bytes(bytes(path.stat().st_size))


def lose_inner_queues(scene: Scene) -> None:
    """The queues of inner batches are gone."""
    shutil.rmtree(scene.root / "batchconsumequeue", ignore_errors=True)


def lose_light_queues(scene: Scene) -> None:
    for path in sorted((scene.root / "consumequeue").glob("%LMQ%*")):
        shutil.rmtree(path)


def lose_neighbours(scene: Scene) -> None:
    """Some records in a row read as zeros."""
    places = sorted(scene.truth)
    first = scene.chance.randrange(len(places))
    for place in places[first : first + scene.chance.choice((2, 3, 5, 9, 20))]:
        scene.put(place, bytes(scene.log.head(place).total_size))


def _queue_files(root: Path) -> list[Path]:
    folders = root / "consumequeue", root / "batchconsumequeue"
    return sorted(path for folder in folders for path in folder.rglob("0*") if path.is_file())


WIDE: dict[str, Kind] = HEADS | {
    function.__name__: function
    for function in (
        lose_topics, wipe_segment, wipe_queue_file, lose_inner_queues, lose_light_queues, lose_neighbours,
    )
}  # fmt: skip
"""All kinds, those of whole files and folders, too."""


def cover_records(scene: Scene) -> None:
    """An old frame that says its own place runs over whole records, to the end of one or into it."""
    chain = [place for place in scene.chance.choice(scene.log.records) if place in scene.truth]
    if len(chain) < 5:
        return
    first = scene.chance.randrange(len(chain) - 4)
    last = chain[first + scene.chance.randint(2, min(4, len(chain) - first - 2))]
    start, whole = chain[first], chain[first + 1]
    inside = scene.now(whole, last - whole)
    over = scene.chance.choice((0, 40, scene.log.head(last).total_size))
    head = scene.log.head(start)
    old = {
        "physicalOffset": start,
        "storeTimestamp": head.store_timestamp_ms,
        "queueId": scene.chance.choice((0, head.queue_id)),
        "queueOffset": scene.chance.choice((0, head.queue_offset)),
        "properties": b"",
    }
    length = last + over - start
    scene.put(start, record(start, body=bytes(length - len(record(start, body=b"", **old))), **old))
    scene.put(whole, inside)


def exchange_segments(scene: Scene) -> None:
    """Two files of the log have each other's names."""
    there = [start for start, path in scene.log.segments.items() if path.exists()]
    one, two = scene.chance.sample(there, 2) if len(there) > 1 else (there[0], there[0])
    paths = scene.log.segments
    data = paths[one].read_bytes()
    paths[one].write_bytes(paths[two].read_bytes())
    paths[two].write_bytes(data)
    paths[one], paths[two] = paths[two], paths[one]


def overwrite_segment(scene: Scene) -> None:
    """A file of the log has the bytes of another."""
    one, two = (scene.some_segment() for _ in range(2))
    one.write_bytes(two.read_bytes())


def lose_last_segment(scene: Scene) -> None:
    paths = [path for path in scene.log.segments.values() if path.exists()]
    if len(paths) > 1:
        paths[-1].unlink()


def lose_queues(scene: Scene) -> None:
    """The index stays, and proves what it leads to."""
    shutil.rmtree(scene.root / "consumequeue", ignore_errors=True)


MISLEADING: dict[str, Kind] = {
    function.__name__: function
    for function in (
        cover_records, exchange_segments, overwrite_segment, lose_last_segment, lose_queues,
    )
}  # fmt: skip
"""Frames that lie, files that lie elsewhere, and an index without its queues."""

MISLED = WIDE | MISLEADING
"""All kinds."""


def damage(source: Path, root: Path, seed: int, kinds: Mapping[str, Kind] = KINDS) -> tuple[Scene, list[str]]:
    """Copy a store and damage it; one to three kinds, and its queues in half of all cases.

    Returns:
        The scene, and what was done.
    """
    chance = random.Random(seed)
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    shutil.copytree(source, root, ignore=papers)
    scene = Scene(root, LogCopy(root), chance)
    names = chance.sample(sorted(kinds), chance.choice((1, 1, 2, 3)))
    names.sort(key=lambda name: name != "rewrite_tail")
    for name in names:
        kinds[name](scene)
    if chance.random() < 0.3:
        for name in _QUEUES:
            shutil.rmtree(root / name, ignore_errors=True)
        names.append("queues gone")
    elif chance.random() < 0.3 and (files := sorted((root / "consumequeue").rglob("0*"))):
        chance.choice([file for file in files if file.is_file()]).unlink()
        names.append("a queue's file gone")
    return scene, names
