"""A disk in memory that can lose its power: what was not flushed is kept, dropped, or half written."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.store.disk import Disk, Identity, Node

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping


class Kill(BaseException):
    """The process is gone."""


class Entry(NamedTuple):
    """What a name stands for in a picture of a disk; ``data`` is None for a directory."""

    mode: int
    modified_ns: int
    data: bytes | None


Picture = dict[str, Entry]
"""Everything by its path; ``""`` is the root."""


@dataclass
class _File:
    mode: int
    modified_ns: int
    data: bytes
    flushed: bytes | None = None
    flushed_ns: int = 0


@dataclass
class _Directory:
    mode: int
    modified_ns: int
    entries: dict[str, _Inode] = field(default_factory=dict)
    flushed: dict[str, _Inode] = field(default_factory=dict)
    flushed_ns: int = 0


_Inode = _File | _Directory


class _Pending(NamedTuple):
    """A change of names or times that is not flushed."""

    touched: tuple[_Inode, ...]
    apply: Callable[[], None]


class ModelDisk(Disk):
    """A `rmqtool.store.disk.Disk`, which counts what it does, and fails when it is told to.

    Names change whole or not at all. Flushing a directory makes the changes of its entries last, and its own
    time; flushing a file its bytes. Of all else a power cut keeps any part, in any combination.
    """

    def __init__(self, picture: Mapping[str, Entry]) -> None:
        self.clock_ns = 10**18
        self.calls = 0
        self.fails_at: int | None = None
        self.failure: BaseException = Kill()
        self._pending: list[_Pending] = []
        self._root = _Directory(0o755, 0)
        for path in sorted(picture):
            self._restore(path, picture[path])

    def _restore(self, path: str, entry: Entry) -> None:
        if not path:
            self._root.mode, self._root.modified_ns = entry.mode, entry.modified_ns
            self._root.flushed_ns = entry.modified_ns
            return
        inode: _Inode
        if entry.data is None:
            inode = _Directory(entry.mode, entry.modified_ns, flushed_ns=entry.modified_ns)
        else:
            inode = _File(entry.mode, entry.modified_ns, entry.data, entry.data, entry.modified_ns)
        parent, name = self._parent(path)
        parent.entries[name] = parent.flushed[name] = inode

    # What the engine calls

    def node(self, path: str) -> Node | None:
        inode = self._find(path)
        if inode is None:
            return None
        size = len(inode.data) if isinstance(inode, _File) else None
        return Node(isinstance(inode, _Directory), inode.mode, inode.modified_ns, size=size)

    def names(self, path: str) -> list[str]:
        inode = self._find(path)
        assert isinstance(inode, _Directory)
        return sorted(inode.entries)

    def read(self, path: str, limit: int) -> bytes:
        inode = self._find(path)
        assert isinstance(inode, _File)
        assert len(inode.data) <= limit
        return inode.data

    def make_private(self, path: str) -> Identity:
        self.make_directory(path)
        return 0, 0

    def hand_over(self, path: str, made: Identity) -> None:
        self._count()
        assert self._find(path) is not None
        assert made == (0, 0)

    def make_directory(self, path: str) -> None:
        self._count()
        parent, name = self._parent(path)
        now = self._now()
        inode = _Directory(0o755, now, flushed_ns=now)
        self._link(parent, name, inode)

    def write_new(self, path: str, data: bytes, mode: int) -> None:
        self._count()
        parent, name = self._parent(path)
        inode = _File(mode, self._now(), b"")
        self._link(parent, name, inode)
        self._count()  # between the name and the bytes
        inode.data = data

    def rename(self, source: str, target: str) -> None:
        self._count()
        if self._find(target) is not None:
            raise FileExistsError(errno.EEXIST, target)
        there, name = self._parent(source)
        here, new = self._parent(target)
        inode = there.entries.pop(name)
        here.entries[new] = inode
        now = there.modified_ns = here.modified_ns = self._now()

        def apply() -> None:
            if there.flushed.get(name) is inode:
                del there.flushed[name]
                here.flushed[new] = inode
                there.flushed_ns = here.flushed_ns = now

        self._pending.append(_Pending((there, here), apply))

    def set_modified(self, path: str, modified_ns: int) -> None:
        self._count()
        inode = self._find(path)
        assert inode is not None
        inode.modified_ns = modified_ns

        def apply() -> None:
            inode.flushed_ns = modified_ns

        self._pending.append(_Pending((inode,), apply))

    def sync(self, path: str) -> None:
        self._count()
        inode = self._find(path)
        assert inode is not None
        for one in [one for one in self._pending if any(touched is inode for touched in one.touched)]:
            one.apply()
            self._pending.remove(one)
        inode.flushed_ns = inode.modified_ns
        if isinstance(inode, _File):
            inode.flushed = inode.data

    def remove(self, path: str) -> None:
        self._count()
        parent, name = self._parent(path)
        inode = parent.entries[name]
        if isinstance(inode, _Directory) and inode.entries:
            raise OSError(errno.ENOTEMPTY, path)
        del parent.entries[name]
        now = parent.modified_ns = self._now()

        def apply() -> None:
            if parent.flushed.get(name) is inode:
                del parent.flushed[name]
                parent.flushed_ns = now

        self._pending.append(_Pending((parent,), apply))

    # What a test does

    def picture(self) -> Picture:
        """Return what processes see."""
        return dict(_walk(self._root, "", lambda one: (one.entries, one.modified_ns), lambda one: one.data))

    def power_cut(self, chance: random.Random) -> Picture:
        """Return what is on the disk after the power failed: of what was not flushed, any part."""
        for one in self._pending:
            if chance.random() < 0.5:
                one.apply()

        def data_of(one: _File) -> bytes:
            if one.flushed is not None and one.flushed == one.data:
                return one.data
            lengths = chance.randrange(len(one.data) + 1), len(one.data)
            return chance.choice([one.data, b"", one.data[: lengths[0]], bytes(lengths[1])])

        return dict(_walk(self._root, "", lambda one: (one.flushed, one.flushed_ns), data_of))

    def _count(self) -> None:
        if self.calls == self.fails_at:
            raise self.failure
        self.calls += 1

    def _now(self) -> int:
        self.clock_ns += 1
        return self.clock_ns

    def _find(self, path: str) -> _Inode | None:
        inode: _Inode | None = self._root
        for name in path.split("/") if path else ():
            inode = inode.entries.get(name) if isinstance(inode, _Directory) else None
        return inode

    def _parent(self, path: str) -> tuple[_Directory, str]:
        folder, _, name = path.rpartition("/")
        parent = self._find(folder)
        if not isinstance(parent, _Directory):
            raise FileNotFoundError(errno.ENOENT, path)
        return parent, name

    def _link(self, parent: _Directory, name: str, inode: _Inode) -> None:
        if name in parent.entries:
            raise FileExistsError(errno.EEXIST, name)
        parent.entries[name] = inode
        now = parent.modified_ns = self._now()

        def apply() -> None:
            parent.flushed[name] = inode
            parent.flushed_ns = now

        self._pending.append(_Pending((parent,), apply))


def _walk(
    inode: _Inode,
    path: str,
    entries_of: Callable[[_Directory], tuple[dict[str, _Inode], int]],
    data_of: Callable[[_File], bytes],
) -> list[tuple[str, Entry]]:
    if isinstance(inode, _File):
        return [(path, Entry(inode.mode, inode.modified_ns, data_of(inode)))]
    entries, modified_ns = entries_of(inode)
    found = [(path, Entry(inode.mode, modified_ns, None))]
    for name, one in entries.items():
        found += _walk(one, f"{path}/{name}" if path else name, entries_of, data_of)
    return found
