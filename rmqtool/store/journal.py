"""Changes of a store that can always be finished, and always be undone.

All changes are renames. What is to be put into the store is made and flushed beforehand in a directory of
its own inside the root, where what is taken out goes, too, so that nothing is ever overwritten or deleted::

    .rmqtool-repair-new-MTIME   while it is prepared; MTIME is the root's own, in ns
    rmqtool-repair-0001/        from here on the change is decided
        journal.ndjson          what is moved, in this order, and the times of directories before
        staged/                 goes into the store
        aside/                  came out of it
        kept/                   lies there amid the change: goes from an old tree into the new one
    .rmqtool-repair-gone-MTIME  undone; being removed

The moves are done one after the other, each flushed before the next. So a store is always at one place k
between "before" (k = 0) and "after" (k = n), give or take the one rename that a power cut may have kept or
dropped; and as a name that is staged or set aside is used once, the names that are there tell k. Nothing
has to be noted on the way. `finish` goes up to n, `undo` down to 0; both may be killed anywhere and be run
again. Names that fit no k have been changed by somebody else: then nothing is touched.

What a kill can leave behind: between the removal of the last directory and the next call the modification
time of the root itself is not what it was; of nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.store.disk import Disk

JOURNAL = "rmqtool-repair-"
STAGED, ASIDE, KEPT = "staged", "aside", "kept"
_FILE = "journal.ndjson"
_NEW, _GONE = f".{JOURNAL}new-", f".{JOURNAL}gone-"
_MODE = 0o644
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Move:
    """One rename; its inverse is the way back.

    Attributes:
        source: Name before, below the root.
        target: Name after, which nothing has.
        why: What it is good for.
    """

    source: str
    target: str
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Journal:
    """A decided change.

    Attributes:
        name: Of its directory.
        moves: In their order.
        times: Modification time in ns of each directory whose entries change, before the change.
        facts: What else is to be known of it; JSON values.
    """

    name: str
    moves: tuple[Move, ...]
    times: Mapping[str, int]
    facts: Mapping[str, Any]

    def text(self) -> str:
        """Return its file: a line for the whole, then a line a move."""
        head = {"journal": _VERSION, "moves": len(self.moves), "times": dict(self.times), **self.facts}
        steps = (
            {"step": number, "move": one.source, "to": one.target, "why": one.why}
            for number, one in enumerate(self.moves, 1)
        )
        return "".join(json.dumps(line) + "\n" for line in (head, *steps))

    @classmethod
    def parse(cls, name: str, text: str) -> Journal:
        """Return the journal of a file.

        Raises:
            RefusedError: It is no journal, or not all of it.
        """
        try:
            head, *steps = map(json.loads, text.splitlines())
            moves = tuple(Move(one["move"], one["to"], one["why"]) for one in steps)
            version, count, times = (head.pop(key) for key in ("journal", "moves", "times"))
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise RefusedError(f"{name}/{_FILE}: is no journal of a repair ({failure})") from failure
        if (version, count) != (_VERSION, len(moves)):
            raise RefusedError(f"{name}/{_FILE}: is of version {version}, with {len(moves)} of {count} moves")
        return cls(name, moves, times, head)


class Draft:
    """A change under preparation: a hidden directory in the root; nothing of the store is touched.

    Args:
        disk: The root.
    """

    def __init__(self, disk: Disk) -> None:
        sweep(disk)
        self._disk = disk
        self._times = {"": _modified(disk, "")}
        self._moves: list[tuple[str, str, str]] = []
        number = max((int(name.removeprefix(JOURNAL)) for name in journals(disk)), default=0) + 1
        self._final = f"{JOURNAL}{number:04d}"
        self.name = f"{_NEW}{self._times['']}"
        disk.make_directory(self.name)
        for name in (STAGED, ASIDE, KEPT):
            disk.make_directory(f"{self.name}/{name}")

    def write(self, path: str, data: bytes, mode: int = _MODE) -> None:
        """Stage the bytes of a file, to go to a name below the root."""
        self._make_parents(f"{self.name}/{STAGED}", path)
        self._disk.write_new(f"{self.name}/{STAGED}/{path}", data, mode)

    def stage(self, made: str, path: str) -> None:
        """Stage what lies in the draft's own directory, to go to a name below the root."""
        self._make_parents(f"{self.name}/{STAGED}", path)
        self._disk.rename(f"{self.name}/{made}", f"{self.name}/{STAGED}/{path}")

    def take_out(self, path: str, why: str) -> None:
        """Plan to set something aside."""
        self._make_parents(f"{self.name}/{ASIDE}", path)
        self._note(path)
        self._moves.append((path, f"{self._final}/{ASIDE}/{path}", why))

    def put_in(self, path: str, why: str) -> None:
        """Plan to give what is staged under a name that name."""
        self._note(path)
        self._moves.append((f"{self._final}/{STAGED}/{path}", path, why))

    def keep(self, path: str, why: str) -> None:
        """Plan to take something out of a tree before that is exchanged; `put_back` has to follow."""
        self._make_parents(f"{self.name}/{KEPT}", path)
        self._note(path)
        self._moves.append((path, f"{self._final}/{KEPT}/{path}", why))

    def put_back(self, path: str, why: str) -> None:
        """Plan to put what was kept into the new tree, which has the directory around it."""
        self._moves.append((f"{self._final}/{KEPT}/{path}", path, why))

    def decide(self, facts: Mapping[str, Any]) -> Journal:
        """Flush all of it and give it its name: from here on the next run finishes or undoes it."""
        journal = Journal(self._final, tuple(Move(*one) for one in self._moves), self._times, facts)
        disk = self._disk
        disk.write_new(f"{self.name}/{_FILE}", journal.text().encode(), _MODE)
        _sync_tree(disk, self.name)
        disk.rename(self.name, self._final)
        disk.sync("")
        return journal

    def discard(self) -> None:
        """Remove what was prepared."""
        sweep(self._disk)

    def _note(self, path: str) -> None:
        """Note the time of the directory that a name is in, and of what is moved if that is a directory."""
        parent = path.rpartition("/")[0]
        self._times.setdefault(parent, _modified(self._disk, parent))
        node = self._disk.node(path)
        if node is not None and node.is_directory:
            self._times.setdefault(path, node.modified_ns)

    def _make_parents(self, base: str, path: str) -> None:
        for component in path.split("/")[:-1]:
            base = f"{base}/{component}"
            if self._disk.node(base) is None:
                self._disk.make_directory(base)


def journals(disk: Disk) -> list[str]:
    """Return the names of the journals in a root, the oldest first."""
    return [
        name for name in disk.names("") if name.startswith(JOURNAL) and name.removeprefix(JOURNAL).isdecimal()
    ]


def read_journal(disk: Disk, name: str) -> Journal:
    """Return the journal of that name.

    Raises:
        RefusedError: It is none.
    """
    return Journal.parse(name, disk.read(f"{name}/{_FILE}").decode("utf-8", "replace"))


def done_moves(disk: Disk, journal: Journal) -> int:
    """Return how many of the moves are done.

    Raises:
        RefusedError: The names that are there are not those of any place between before and after.
    """
    there = {path: disk.node(path) is not None for one in journal.moves for path in (one.source, one.target)}
    expected: dict[str, bool] = {}
    for move in journal.moves:
        expected.setdefault(move.source, True)
        expected.setdefault(move.target, False)
    if there == expected:
        return 0
    for number, move in enumerate(journal.moves, 1):
        expected |= {move.source: False, move.target: True}
        if there == expected:
            return number
    raise RefusedError(
        f"{journal.name}: somebody else has renamed, made or removed files since the repair; nothing is"
        f" touched. {journal.name}/{_FILE} says what was moved where"
    )


def finish(disk: Disk, journal: Journal) -> None:
    """Do the moves that are not done yet.

    Raises:
        RefusedError: As for `done_moves`.
        OSError: A rename failed; the store is where it was before that.
    """
    for move in journal.moves[done_moves(disk, journal) :]:
        _rename(disk, move.source, move.target)


def undo(disk: Disk, journal: Journal) -> None:
    """Take the moves back that are done, restore the times, and remove the journal.

    Raises:
        RefusedError: As for `done_moves`.
        OSError: A rename failed; the store is where it was before that.
    """
    for move in reversed(journal.moves[: done_moves(disk, journal)]):
        _rename(disk, move.target, move.source)
    for path, modified_ns in journal.times.items():
        if path:
            disk.set_modified(path, modified_ns)
            disk.sync(path)
    disk.rename(journal.name, f"{_GONE}{journal.times['']}")
    disk.sync("")
    sweep(disk)


def sweep(disk: Disk) -> None:
    """Remove what killed runs left that was not decided yet, or is undone, and restore the root's time."""
    for name in disk.names(""):
        for prefix in (_NEW, _GONE):
            if name.startswith(prefix) and name.removeprefix(prefix).isdecimal():
                _remove_tree(disk, name)
                disk.set_modified("", int(name.removeprefix(prefix)))
                disk.sync("")


def _rename(disk: Disk, source: str, target: str) -> None:
    disk.rename(source, target)
    for parent in dict.fromkeys(path.rpartition("/")[0] for path in (target, source)):
        disk.sync(parent)


def _modified(disk: Disk, path: str) -> int:
    node = disk.node(path)
    if node is None or not node.is_directory:
        raise RefusedError(f"{path}: is no directory; nothing is moved there")
    return node.modified_ns


def _sync_tree(disk: Disk, path: str) -> None:
    for below in _below(disk, path):
        disk.sync(below)


def _remove_tree(disk: Disk, path: str) -> None:
    for below in _below(disk, path):
        disk.remove(below)


def _below(disk: Disk, path: str) -> Iterable[str]:
    """Yield what is in a tree, what lies in a directory before itself; links are not followed."""
    node = disk.node(path)
    if node is not None and node.is_directory:
        for name in disk.names(path):
            yield from _below(disk, f"{path}/{name}")
    yield path
