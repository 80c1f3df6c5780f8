"""Journal of a store's changes, all of them renames that can always be finished and always be undone.

New files are written and flushed beforehand in a directory inside the root, and what is taken out goes there,
so nothing is ever overwritten or deleted::

    .rmqtool-repair-new-MTIME   while it is prepared; MTIME is the root's own, in ns
    rmqtool-repair-0001/        from here on the change is decided
        journal.ndjson          moves in their order, and the times of directories before
        staged/                 goes into the store
        aside/                  came out of it
        kept/                   lies there during the change: goes from an old tree into the new one
    .rmqtool-repair-gone-MTIME  undone; being removed

The moves are done one after the other, each flushed before the next. So a store is always at one place k
between "before" (k = 0) and "after" (k = n), give or take the one rename that a power cut may have kept or
dropped. As each staged or set-aside name is used once, the names in the store give k, and nothing has to
be noted on the way. `finish` goes up to n, `undo` down to 0; both may be killed anywhere and run again.
Names that fit no k were changed by somebody else: then nothing is touched.

Anybody who can write into the store may have written a journal. `Journal.parse` refuses lines that do not
follow from each other, and moves that are not between a place below the root and the same place in the
journal's directory; `read_journal` refuses a third party's files. Callers decide which places may be moved,
and carry out only what the user has begun: that is kept outside of the store (`rmqtool.caches.proof_of`).

A kill between the removal of the last directory and the next call leaves the root with another
modification time; no other time changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqtool.store.disk import Disk, Node

JOURNAL = "rmqtool-repair-"
STAGED, ASIDE, KEPT = "staged", "aside", "kept"
REBUILT = "rebuilt"
_FILE = "journal.ndjson"
_NEW, _GONE = f".{JOURNAL}new-", f".{JOURNAL}gone-"
_OWN = frozenset({STAGED, ASIDE, KEPT, REBUILT, _FILE})
_NAME = re.compile(rf"{JOURNAL}([0-9]{{4,9}})")
_LEFT = re.compile(rf"\.{JOURNAL}(?:new|gone)-([0-9]{{1,19}})")
_MODE = 0o644
_VERSION, _UNCHAINED = 2, 1
_DIGEST = "sha256"
_LARGEST = 1 << 28
_LATEST_NS = 1 << 63


@dataclass(frozen=True, slots=True)
class Move:
    """One rename below the root, to a name that does not exist. Its inverse undoes it."""

    source: str
    target: str
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Journal:
    """A decided change; its file is a line for the whole, then a line per move.

    The last member of a line is the SHA-256 of that of the line before and of the line's own text (version 1
    had none). ``times`` are the modification times in ns of each changed directory before the change;
    ``facts`` are JSON values of the caller.
    """

    name: str
    moves: tuple[Move, ...]
    times: Mapping[str, int]
    facts: Mapping[str, Any]

    def text(self) -> str:
        """Return the text of its file."""
        head = {"journal": _VERSION, "moves": len(self.moves), "times": dict(self.times), **self.facts}
        steps = (
            {"step": number, "move": move.source, "to": move.target, "why": move.why}
            for number, move in enumerate(self.moves, 1)
        )
        digest, lines = "", []
        for line in (head, *steps):
            digest = _chained(digest, line)
            lines.append(json.dumps({**line, _DIGEST: digest}) + "\n")
        return "".join(lines)

    @classmethod
    def parse(cls, name: str, text: str) -> Journal:
        """Parse a file; `RefusedError` if it is not a complete journal, or names what no repair moves."""
        try:
            lines = [json.loads(line) for line in text.splitlines()]
            head, *steps = lines
            version = head["journal"]
            if version != _UNCHAINED:
                _check_chain(lines)
            moves = tuple(Move(step["move"], step["to"], step["why"]) for step in steps)
            count, times = (head.pop(key) for key in ("moves", "times"))
            del head["journal"]
            _check_places(name, moves, times)
            is_known = version in {_VERSION, _UNCHAINED} and count == len(moves)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as failure:
            raise refusal(name, f"is not a journal of a repair ({failure})") from failure
        if not is_known:
            raise refusal(name, f"is of version {version}, with {len(moves)} of {count} moves")
        return cls(name, moves, times, head)

    def place(self, move: Move) -> tuple[str, str]:
        """Return the store's name in a move, and the directory here that holds its other name."""
        place = _place(self.name, move)
        inside = move.target if place == move.source else move.source
        return place, inside.split("/")[1]


class Draft:
    """A change under preparation in a hidden directory of the root; the store's own files stay untouched.

    ``identity`` is that of the directory, which only the caller can read until `decide`.
    """

    def __init__(self, disk: Disk) -> None:
        sweep(disk)
        self._disk = disk
        self._root = _directory(disk, "")
        self._times = {"": self._root.modified_ns}
        self._moves: list[tuple[str, str, str]] = []
        number = max(map(_number, journals(disk)), default=0) + 1
        self._final = f"{JOURNAL}{number:04d}"
        self.name = f"{_NEW}{self._times['']}"
        self.identity = disk.make_private(self.name)
        for name in (STAGED, ASIDE, KEPT):
            disk.make_directory(f"{self.name}/{name}")

    def write(self, path: str, data: bytes, mode: int = _MODE) -> None:
        """Stage the bytes of a file for a name below the root."""
        self._make_parents(f"{self.name}/{STAGED}", path)
        self._disk.write_new(f"{self.name}/{STAGED}/{path}", data, mode)

    def stage(self, made: str, path: str) -> None:
        """Stage a file of the draft's own directory for a name below the root."""
        self._make_parents(f"{self.name}/{STAGED}", path)
        self._disk.rename(f"{self.name}/{made}", f"{self.name}/{STAGED}/{path}")

    def take_out(self, path: str, why: str) -> None:
        """Plan to set something aside."""
        self._make_parents(f"{self.name}/{ASIDE}", path)
        self._note(path)
        self._moves.append((path, f"{self._final}/{ASIDE}/{path}", why))

    def put_in(self, path: str, why: str) -> None:
        """Plan to move a staged file to its name in the store."""
        self._note(path)
        self._moves.append((f"{self._final}/{STAGED}/{path}", path, why))

    def keep(self, path: str, why: str) -> None:
        """Plan to move something out of a tree before the tree is exchanged; `put_back` has to follow."""
        self._make_parents(f"{self.name}/{KEPT}", path)
        self._note(path)
        self._moves.append((path, f"{self._final}/{KEPT}/{path}", why))

    def put_back(self, path: str, why: str) -> None:
        """Plan to move a kept file into the new tree, which has its directory."""
        self._moves.append((f"{self._final}/{KEPT}/{path}", path, why))

    def decide(
        self, facts: Mapping[str, Any], prove: Callable[[Journal], object] = lambda _: None
    ) -> Journal:
        """Flush everything and rename the directory: from now on the next run finishes or undoes it.

        ``prove`` is called before, to keep outside of the store that this journal is the caller's.
        """
        journal = Journal(self._final, tuple(Move(*move) for move in self._moves), self._times, facts)
        disk = self._disk
        disk.write_new(f"{self.name}/{_FILE}", journal.text().encode(), _MODE)
        disk.hand_over(self.name, self.identity)
        for below in _below(disk, self.name):
            disk.sync(below)
        prove(journal)
        disk.rename(self.name, self._final)
        disk.sync("")
        return journal

    def discard(self) -> None:
        """Remove the preparation."""
        sweep(self._disk)

    def _note(self, path: str) -> None:
        """Note the time of a name's directory, and of the moved directory itself."""
        parent, node = path.rpartition("/")[0], self._disk.node(path)
        around = _directory(self._disk, parent)
        self._times.setdefault(parent, around.modified_ns)
        if node is not None and node.is_directory:
            self._times.setdefault(path, node.modified_ns)
        if any(place.device != self._root.device for place in (around, node or around)):
            raise RefusedError(f"{path}: lies on another file system than the store; nothing was changed")

    def _make_parents(self, base: str, path: str) -> None:
        for component in path.split("/")[:-1]:
            base = f"{base}/{component}"
            if self._disk.node(base) is None:
                self._disk.make_directory(base)


def journals(disk: Disk) -> list[str]:
    """Return the names of the journals in a root, the oldest first."""
    return sorted((name for name in disk.names("") if _NAME.fullmatch(name)), key=_number)


def read_journal(disk: Disk, name: str) -> Journal:
    """Read a journal; `RefusedError` if it is not one, or neither the root's owner's nor the caller's."""
    for path in (name, *(f"{name}/{folder}" for folder in (_FILE, STAGED, ASIDE, KEPT))):
        node = _node(disk, name, path)
        if node is None:
            raise refusal(name, f"is not the journal of a repair: {path} is missing")
        if node.is_directory != (path != f"{name}/{_FILE}"):
            kind = "a directory" if node.is_directory else "no directory"
            raise refusal(name, f"is not the journal of a repair: {path} is {kind}")
        if not node.is_ours:
            raise refusal(name, f"is not taken: {path} belongs neither to the store's owner nor to you")
    try:
        data = disk.read(f"{name}/{_FILE}", _LARGEST)
    except OSError as failure:
        raise refusal(name, f"cannot be read ({failure.strerror})") from failure
    return Journal.parse(name, data.decode("utf-8", "replace"))


def is_done(disk: Disk, journal: Journal) -> bool:
    """Return whether all moves have been done, even if the store's names have changed since."""
    inside = f"{journal.name}/"
    last = {path: end for move in journal.moves for path, end in ((move.source, False), (move.target, True))}
    return all(
        (_node(disk, journal.name, path) is not None) == end
        for path, end in last.items()
        if path.startswith(inside)
    )


def done_moves(disk: Disk, journal: Journal) -> int:
    """Return the number of moves done.

    Raises `RefusedError` if the names fit no place between before and after, or a staged entry is neither a
    directory nor a regular file with one name, or a third party's.
    """
    there = {
        path: _node(disk, journal.name, path) for move in journal.moves for path in (move.source, move.target)
    }
    for path, node in there.items():
        if node is not None and path.startswith(f"{journal.name}/{STAGED}/") and not _is_plain(node):
            raise refusal(
                journal.name, f"is not taken: {path} is a link, no file of its own, or a third party's"
            )
    expected: dict[str, bool] = {}
    for move in journal.moves:
        expected.setdefault(move.source, True)
        expected.setdefault(move.target, False)
    wrong = {path for path, node in there.items() if (node is not None) != expected[path]}
    if not wrong:
        return 0
    for number, move in enumerate(journal.moves, 1):
        for path, end in ((move.source, False), (move.target, True)):
            (wrong.discard if (there[path] is not None) == end else wrong.add)(path)
        if not wrong:
            return number
    raise RefusedError(
        f"{journal.name}: somebody else has renamed, made or removed files since the repair; nothing was "
        f"changed. {journal.name}/{_FILE} lists the moves"
    )


def finish(disk: Disk, journal: Journal) -> None:
    """Do the remaining moves, see `done_moves`; where a rename fails, the store stays (`OSError`)."""
    for move in journal.moves[done_moves(disk, journal) :]:
        _rename(disk, move.source, move.target)


def undo(disk: Disk, journal: Journal) -> None:
    """Undo the moves, restore the times, and remove the journal.

    Raises `RefusedError` as for `done_moves`, or if something was added to the set-aside files, which is not
    removed; `OSError` if a rename failed, before which the store stays.
    """
    for move in reversed(journal.moves[: done_moves(disk, journal)]):
        _rename(disk, move.target, move.source)
    for path in (f"{journal.name}/{ASIDE}", f"{journal.name}/{KEPT}"):
        for below in _below(disk, path):
            node = disk.node(below)
            if node is not None and not node.is_directory:
                raise RefusedError(
                    f"{below}: the store is as before the repair, but this was not set aside by it, and is"
                    " not removed; move it away, and run repair --undo again"
                )
    for path, modified_ns in journal.times.items():
        if path:
            disk.set_modified(path, modified_ns)
            disk.sync(path)
    disk.rename(journal.name, f"{_GONE}{journal.times['']}")
    disk.sync("")
    sweep(disk)


def sweep(disk: Disk) -> None:
    """Remove the undecided or undone directories of killed runs, and restore the root's time.

    A directory of such a name with other content in it is not removed.
    """
    for name in disk.names(""):
        match = _LEFT.fullmatch(name)
        node = None if match is None else disk.node(name)
        if match is None or node is None or not (node.is_directory and node.is_ours):
            continue
        if int(match[1]) >= _LATEST_NS:
            continue
        if all(entry in _OWN or entry.startswith(f".{REBUILT}.") for entry in disk.names(name)):
            for below in _below(disk, name):
                disk.remove(below)
            disk.set_modified("", int(match[1]))
            disk.sync("")


def _number(name: str) -> int:
    return int(name.removeprefix(JOURNAL))


def _chained(before: str, line: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{before}{json.dumps(line)}".encode()).hexdigest()


def _check_chain(lines: list[dict[str, Any]]) -> None:
    """Remove the digests from lines; `ValueError` where one does not follow from the line before."""
    before = ""
    for number, line in enumerate(lines, 1):
        said = line.pop(_DIGEST)
        before = _chained(before, line)
        if said != before:
            raise ValueError(f"line {number} is not what a repair wrote: it has been changed since")


def _place(name: str, move: Move) -> str:
    """Return the store's name in a move, which is between the store and the journal's directory."""
    for folder in (ASIDE, KEPT):
        if move.target == f"{name}/{folder}/{move.source}":
            return move.source
    for folder in (STAGED, KEPT):
        if move.source == f"{name}/{folder}/{move.target}":
            return move.target
    raise ValueError(f"it moves {move.source!r} to {move.target!r}")


def _check_places(name: str, moves: tuple[Move, ...], times: dict[str, int]) -> None:
    """Raise ValueError where a move, or a time, concerns anything but the store below the root."""
    timed = {""}
    for move in moves:
        place = _place(name, move)
        place.encode("utf-8", "surrogateescape")
        is_name = "\0" not in place and {"", ".", ".."}.isdisjoint(place.split("/"))
        if not is_name or place.startswith((JOURNAL, f".{JOURNAL}")) or not isinstance(move.why, str):
            raise ValueError(f"it moves {move.source!r} to {move.target!r}")
        timed |= {place, place.rpartition("/")[0]}
    if "" not in times or not times.keys() <= timed:
        raise ValueError("it sets times of other directories than those that it changes")
    if not all(type(time) is int and 0 <= time < _LATEST_NS for time in times.values()):
        raise ValueError("it sets times that are none")


def _is_plain(node: Node) -> bool:
    return node.is_ours and (node.is_directory or (node.size is not None and node.names == 1))


def _node(disk: Disk, name: str, path: str) -> Node | None:
    try:
        return disk.node(path)
    except OSError as failure:
        raise refusal(name, f"is not taken: {path}: {failure.strerror}") from failure


def refusal(name: str, why: str) -> RefusedError:
    """Return the refusal of a journal by the name of its directory."""
    return RefusedError(
        f"{name}/{_FILE}: {why}; nothing was changed. Check it, and move {name} out of the store if it is "
        "not yours"
    )


def _rename(disk: Disk, source: str, target: str) -> None:
    disk.rename(source, target)
    for parent in dict.fromkeys(path.rpartition("/")[0] for path in (target, source)):
        disk.sync(parent)


def _directory(disk: Disk, path: str) -> Node:
    node = disk.node(path)
    if node is None or not node.is_directory:
        raise RefusedError(f"{path}: is not a directory; nothing is moved there")
    return node


def _below(disk: Disk, path: str) -> Iterable[str]:
    """Yield the entries of a tree, a directory after its contents; links are not followed."""
    node = disk.node(path)
    if node is not None and node.is_directory:
        for name in disk.names(path):
            yield from _below(disk, f"{path}/{name}")
    yield path
