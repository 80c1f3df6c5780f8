"""Damaged stores, each by its name: the cases of ``fixtures/damage``, on every release, and random damage."""

from __future__ import annotations

import random
import re
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rmqtool.store.broker_json import parse_broker_json
from tests.broker.measured import OF_ANOTHER, Copy
from tests.broker.stores import STORES, fixture_store
from tests.damage.cases import load_cases
from tests.damage.edits import apply
from tests.damage.mutations import Mutator
from tests.damage.running import places_of
from tests.recovery.states import is_not_predicted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.damage.cases import Case

    _Kind = Callable[[Path, str, random.Random], None]

RELEASES: tuple[Version, ...] = ("4.9.8", "5.3.3", "5.4.0", "5.5.1")
_UNIT = struct.Struct(">qiq")
_OF_THE_BROKER_AROUND = {"CF-BACKUP", "CF-FORGETS", "CF-REFUSED"}
_RANDOM_STORES = (
    "plain",
    "segments",
    "delay",
    "transaction",
    "lmq",
    "ext",
    "batchcq",
    "expiredhead",
    "crash",
)


class NotMadeError(Exception):
    """An edit that a store has no place for."""


@dataclass(frozen=True)
class State:
    """A damaged store.

    Attributes:
        name: What happened; with the store and ``abort`` it says how to make it again.
        code: Of the case, or ``random``.
        fixture: The store that was damaged.
        abort: Whether there is one: as the damage leaves it where it is None.
        damage: Makes it so.
        properties: Settings beyond the store's own.
        is_whole: Whether a broker made it so, and nothing counts as damage.
    """

    name: str
    code: str
    fixture: str
    abort: bool | None
    damage: Callable[[Path], None]
    properties: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def label(self) -> str:
        """The name, the store, and ``abort``."""
        abort = {None: "", True: ", abort", False: ", no abort"}[self.abort]
        return f"{self.code}: {self.name} @{self.fixture}{abort}"

    @property
    def version(self) -> Version:
        """The release that made the store."""
        return fixture_store(self.fixture).version

    def copy_to(self, folder: Path) -> Copy:
        """Make it, in a new folder, with its settings beside it.

        Raises:
            NotMadeError: The store has no such place.
        """
        store = fixture_store(self.fixture)
        folder.mkdir(parents=True)
        root, conf = store.copy_to(folder / "store"), folder / "broker.conf"
        settings = store.conf.read_text("utf-8") if store.conf.exists() else ""
        conf.write_text("\n".join([settings, *self.properties, ""]), "utf-8")
        self.damage(root)
        if self.abort:
            (root / "abort").touch()
        elif self.abort is False:
            (root / "abort").unlink(missing_ok=True)
        names = [int(path.name) for path in (root / "commitlog").glob("*") if path.name.isdigit()]
        return Copy(root, conf, "" if self.is_whole else self.fixture, start=min(names, default=0))


def case_states(version: Version | None = None) -> Iterator[State]:
    """Yield every case on its own store, and on the same store by other releases, with ``abort`` and without.

    Args:
        version: Only stores of that release.
    """
    for case in load_cases():
        for fixture in _siblings(case.store):
            own = fixture_store(fixture).version
            if version in {None, own} and _is_for_a_store(case, own):
                yield from _of_case(case, fixture)


def own_case_states() -> Iterator[State]:
    """Yield every case on its own store alone, with ``abort`` and without."""
    for case in load_cases():
        if _is_for_a_store(case, fixture_store(case.store).version):
            yield from _of_case(case, case.store)


def random_states(seeds: range, version: Version | None = None, code: str = "random") -> Iterator[State]:
    """Yield as many damaged stores, the same ones for the same seeds.

    Args:
        seeds: One for each.
        version: Only stores of that release; else each seed has its own.
        code: ``random``, or ``mishap`` for what happens to backups and their files, too.
    """
    for seed in seeds:
        chance = random.Random(seed)
        release = version or random.Random(f"release {seed}").choice(RELEASES)  # the same state by either
        names = [f"{kind}-{release}" for kind in _RANDOM_STORES]
        fixture = chance.choice([name for name in names if (STORES / name).exists()])
        times, abort = chance.choice((1, 1, 1, 2, 3)), chance.random() < 0.5
        yield State(str(seed), code, fixture, abort, _random(fixture, seed, times, _KINDS_OF[code]))


def states_by_label(labels: Iterable[str]) -> dict[str, State]:
    """Return the states of labels, such as a report names them.

    Raises:
        KeyError: There is no such state.
    """
    cases = {state.label: state for state in case_states()}
    return {
        label: _random_of(label) if label.partition(":")[0] in _KINDS_OF else cases[label] for label in labels
    }


def _random_of(label: str) -> State:
    seed = int(label.split()[1])
    for version in RELEASES:
        (state,) = random_states(range(seed, seed + 1), version, label.partition(":")[0])
        if state.label == label:
            return state
    raise KeyError(label)


def _of_case(case: Case, fixture: str) -> Iterator[State]:
    edits_it = any(edit.get("file") == "abort" for edit in case.edits)
    for abort in (None,) if edits_it else (False, True):
        yield State(
            case.name,
            case.code,
            fixture,
            abort,
            lambda root: _edited(root, case, fixture),
            tuple(case.properties),
        )


def _siblings(fixture: str) -> list[str]:
    """Return the same store by each release, its own first."""
    kind = fixture.rpartition("-")[0]
    others = [f"{kind}-{version}" for version in RELEASES if f"{kind}-{version}" != fixture]
    return [fixture, *(name for name in others if (STORES / name).exists())]


def _edited(root: Path, case: Case, fixture: str) -> None:
    try:
        for edit in case.edits:
            apply(root, places_of(fixture), edit)
    except (AssertionError, LookupError, OSError, ValueError) as wrong:
        raise NotMadeError(f"{case.code}: {case.name} @{fixture}: {wrong}") from wrong


def _is_for_a_store(case: Case, version: Version) -> bool:
    """Whether a store's classes meet it, in a folder that can be moved."""
    return not (
        any("fifo" in edit or edit.get("file") == "timerwheel" for edit in case.edits)
        or case.code in _OF_THE_BROKER_AROUND
        or is_not_predicted(case)
        or any("storePath" in one for one in case.properties)
        or (version == "4.9.8" and case.code == "CL-HUGE-SIZE")  # it exhausts the heap that many stores share
    )


def topics_decode(root: Path) -> bool:
    """Whether the broker around a store, which real store classes lack, reads its ``topics.json``."""
    path = root / "config" / "topics.json"
    try:
        return not path.exists() or bool(parse_broker_json(path.read_text("utf-8")))
    except (OSError, ValueError):
        return False


# --- random damage


@cache
def _mutator(fixture: str) -> Mutator:
    return Mutator(fixture_store(fixture).root)


def _random(fixture: str, seed: int, times: int, kinds: Sequence[_Kind]) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        chance = random.Random(seed)
        for _ in range(times):
            kind = chance.choice((_mutated, *kinds))
            kind(root, fixture, chance)

    return damage


def _mutated(root: Path, fixture: str, chance: random.Random) -> None:
    mutator = _mutator(fixture)
    mutation = None
    while mutation is None:
        target = chance.choice([one for one in mutator.targets if not one.startswith("side file")])
        mutation = mutator.mutate(target, chance)
    for label, data in mutation.contents.items():
        path = root / label
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for path in root.glob(pattern) if path.is_file())


def _write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _zeroed_page(root: Path, _fixture: str, chance: random.Random) -> None:
    path = chance.choice(_files(root, "commitlog/*") or [root / "checkpoint"])
    size = path.stat().st_size
    length = chance.choice((512, 1024, 4096))
    at = chance.randrange(0, max(size, 1), 512)
    _write(path, at, bytes(min(length, max(size - at, 0))))


def _flipped_byte(root: Path, _fixture: str, chance: random.Random) -> None:
    pattern = chance.choice(("commitlog/*", "commitlog/*", "consumequeue/*/*/*", "index/*"))
    path = chance.choice(_files(root, pattern) or [root / "checkpoint"])
    data = path.read_bytes() if path.is_file() else b""
    used = max(len(data.rstrip(b"\0")), 1)
    if data:
        at = chance.randrange(used)
        _write(path, at, bytes([data[at] ^ (1 << chance.randrange(8))]))


def _cut_file(root: Path, _fixture: str, chance: random.Random) -> None:
    pattern = chance.choice(("commitlog/*", "consumequeue/*/*/*", "consumequeue/*/*/*", "index/*"))
    if files := _files(root, pattern):
        path = chance.choice(files)
        with path.open("r+b") as file:
            file.truncate(chance.randrange(path.stat().st_size + 1))


def _removed_file(root: Path, _fixture: str, chance: random.Random) -> None:
    pattern = chance.choice(
        ("commitlog/*", "consumequeue/*/*/*", "consumequeue/*/*/*", "index/*", "checkpoint")
    )
    if files := _files(root, pattern):
        chance.choice([files[0], files[-1], chance.choice(files)]).unlink()


def _foreign_queue(root: Path, fixture: str, chance: random.Random) -> None:
    """Put a queue file of another queue, or of another release's store, in the place of a file."""
    kind = fixture.rpartition("-")[0]
    source = chance.choice(
        [fixture, *(name for name in _siblings(f"{kind}-{RELEASES[0]}") if name != fixture)]
    )
    theirs = _files(STORES / source, "consumequeue/*/*/*")
    mine = _files(root, "consumequeue/*/*/*")
    if theirs and mine:
        chance.choice(mine).write_bytes(chance.choice(theirs).read_bytes())


def _units_behind_the_end(root: Path, _fixture: str, chance: random.Random) -> None:
    """Write units behind a queue's last one: of another queue, of its own, or too far beyond the log."""
    queues = sorted({path.parent for path in _files(root, "consumequeue/*/*/*")})
    if not queues:
        return
    path = max(path for path in chance.choice(queues).iterdir() if path.is_file())
    theirs = max(path for path in chance.choice(queues).iterdir() if path.is_file()).read_bytes()
    data = path.read_bytes()
    used = sum(
        1 for at in range(0, len(data) // _UNIT.size * _UNIT.size, _UNIT.size) if any(data[at : at + 12])
    )
    room = len(data) // _UNIT.size - used
    count = min(chance.randrange(1, 5), room)
    new = b"".join(_UNIT.pack(1 << chance.randrange(30, 40), 200, 1) for _ in range(count))
    if chance.random() < 0.7:
        new = theirs[: count * _UNIT.size]
    _write(path, used * _UNIT.size, new[: count * _UNIT.size])


def _zeroed_units(root: Path, _fixture: str, chance: random.Random) -> None:
    if files := _files(root, "consumequeue/*/*/*"):
        path = chance.choice(files)
        units = path.stat().st_size // _UNIT.size
        first = chance.randrange(max(units, 1))
        _write(path, first * _UNIT.size, bytes(_UNIT.size * min(chance.randrange(1, 6), units - first)))


def _removed_index(root: Path, _fixture: str, chance: random.Random) -> None:
    files = _files(root, "index/*")
    for path in files if chance.random() < 0.5 else files[-1:]:
        path.unlink()


def _removed_queue(root: Path, _fixture: str, chance: random.Random) -> None:
    files = _files(root, "consumequeue/*/*/*")
    if not files:
        return
    folder = chance.choice(files).parent
    for path in files:
        if path.parent == folder or chance.random() < 0.1:
            path.unlink()


def _old_checkpoint(root: Path, _fixture: str, chance: random.Random) -> None:
    path = root / "checkpoint"
    if path.is_file():
        chance.choice(
            (path.unlink, lambda: _write(path, 0, bytes(24)), lambda: _write(path, 0, b"\0\0\1" * 8))
        )()


def _foreign_log_file(root: Path, fixture: str, chance: random.Random) -> None:
    """Restore a file of the log from another broker's backup, by its name or over the last one."""
    others = [name for name in sorted(path.name for path in STORES.iterdir()) if name != fixture]
    theirs = _files(STORES / chance.choice(others), "commitlog/*")
    mine = {path.name: path for path in _files(root, "commitlog/*")}
    if same := [path for path in theirs if path.name in mine]:
        path = chance.choice(same)
        mine[path.name].write_bytes(of_others(path))


def of_others(path: Path) -> bytes:
    """Return a file of the log with other bodies and unique keys: all fixtures have the same."""
    data = bytearray(path.read_bytes())
    for match in re.finditer(rb"\xda\xa3\x20[\xa7\xab]", path.read_bytes()):
        at = match.start() - 4
        size, flags = (int.from_bytes(data[at + field : at + field + 4], "big") for field in (0, 36))
        body = at + 84 + 12 * (flags >> 4 & 1) + 12 * (flags >> 5 & 1)
        length = int.from_bytes(data[body : body + 4], "big")
        data[body + 4 : body + 4 + length] = bytes(byte ^ 0x55 for byte in data[body + 4 : body + 4 + length])
        sum_ = zlib.crc32(data[body + 4 : body + 4 + length]) & 0x7FFFFFFF
        data[at + 8 : at + 12] = sum_.to_bytes(4, "big") if length else data[at + 8 : at + 12]
        key = data.find(b"UNIQ_KEY\1", at, at + size)
        if key >= 0:
            data[key + 9 : key + 9 + len(OF_ANOTHER)] = OF_ANOTHER
    return bytes(data)


def _older_log(root: Path, _fixture: str, chance: random.Random) -> None:
    """Restore the log from a backup that is older than all else: its last messages are not there."""
    files = _files(root, "commitlog/*")
    if not files:
        return
    last = chance.randrange(len(files))
    data = files[last].read_bytes()
    starts = [
        at for at in range(len(data)) if data.startswith((b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"), at)
    ]
    end = max(chance.choice(starts or [4]) - 4, 0)
    files[last].write_bytes(data[:end].ljust(len(data), b"\0"))
    for path in files[last + 1 :]:
        path.unlink()


def _older_queues(root: Path, _fixture: str, chance: random.Random) -> None:
    """Restore all queues from an older backup: the last units of each are not written yet."""
    keep = chance.random()
    for folder in sorted({path.parent for path in _files(root, "consumequeue/*/*/*")}):
        for path in _files(folder, "*"):
            data = path.read_bytes()
            used = len(data.rstrip(b"\0")) // _UNIT.size * _UNIT.size
            end = int(used * keep) // _UNIT.size * _UNIT.size
            path.write_bytes(data[:end].ljust(len(data), b"\0"))


def _swapped_files(root: Path, _fixture: str, chance: random.Random) -> None:
    """Two files of the log under each other's name."""
    files = _files(root, "commitlog/*")
    if len(files) > 1:
        a, b = chance.sample(files, 2)
        data = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(data)


def _copied_file(root: Path, _fixture: str, chance: random.Random) -> None:
    """A file of the log over another one."""
    files = _files(root, "commitlog/*")
    if len(files) > 1:
        a, b = chance.sample(files, 2)
        a.write_bytes(b.read_bytes())


def _empty_file(root: Path, _fixture: str, chance: random.Random) -> None:
    """A file that a full disk left empty, or full of zeros."""
    pattern = chance.choice(("commitlog/*", "consumequeue/*/*/*", "index/*", "checkpoint"))
    if files := _files(root, pattern):
        path = chance.choice(files)
        path.write_bytes(bytes(chance.choice((0, path.stat().st_size))))


def _file_of_zeros_next(root: Path, _fixture: str, chance: random.Random) -> None:
    """A file after the log's last one, of zeros or empty, as a broker prepares it."""
    if files := _files(root, "commitlog/*"):
        size = files[0].stat().st_size
        path = files[-1].with_name(f"{int(files[-1].name) + size * chance.choice((1, 1, 2)):020d}")
        path.write_bytes(bytes(chance.choice((0, size, size))))


def _foreign_index_file(root: Path, _fixture: str, chance: random.Random) -> None:
    if files := _files(root, "index/*"):
        others = [path for store in sorted(STORES.iterdir()) for path in _files(store, "index/*")]
        chance.choice(files).write_bytes(chance.choice(others).read_bytes())


_KINDS = (
    _zeroed_page,
    _zeroed_page,
    _flipped_byte,
    _flipped_byte,
    _cut_file,
    _removed_file,
    _removed_file,
    _foreign_queue,
    _units_behind_the_end,
    _zeroed_units,
    _removed_index,
    _removed_queue,
    _old_checkpoint,
)
_MISHAPS = (
    *_KINDS,
    _foreign_log_file,
    _foreign_log_file,
    _older_log,
    _older_log,
    _older_queues,
    _swapped_files,
    _copied_file,
    _empty_file,
    _file_of_zeros_next,
    _foreign_index_file,
)
_KINDS_OF = {"random": _KINDS, "mishap": _MISHAPS}
