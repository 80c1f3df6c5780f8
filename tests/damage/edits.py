"""Edits of a copy of a store, as the case files write them: a place, and what happens there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from tests.damage.places import Place, Places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    Spec = Mapping[str, Any]


def apply(root: Path, places: Places, edit: Spec) -> None:
    """Make one edit.

    Args:
        root: of the copy.
        places: of the store that it is a copy of.
        edit: one table of a case; exactly one of its keys is an action.

    Raises:
        ValueError: none of its keys is, or several are.
    """
    actions = [key for key in edit if key in _ON_BYTES or key in _ON_FILES]
    if len(actions) != 1:
        raise ValueError(f"{dict(edit)}: one action is wanted, of {sorted([*_ON_BYTES, *_ON_FILES])}")
    place = places.find(edit)
    value = edit[actions[0]]
    if actions[0] in _ON_FILES:
        _ON_FILES[actions[0]](root, places, root / place.file, value)
        return
    path = root / place.file
    path.write_bytes(_ON_BYTES[actions[0]](root, places, place, value))


def edited(store: Path, target: Path, edits: Iterable[Spec]) -> Path:
    """Copy a store, edit the copy, and return it."""
    shutil.copytree(store, target, symlinks=True)
    places = Places(store)
    for edit in edits:
        apply(target, places, edit)
    return target


def _data(root: Path, place: Place) -> bytes:
    data = (root / place.file).read_bytes()
    assert place.position <= len(data), f"{place} lies outside the file"
    return data


def _overwritten(root: Path, place: Place, new: bytes) -> bytes:
    data = _data(root, place)
    return data[: place.position] + new + data[place.position + len(new) :]


def _set(root: Path, _places: Places, place: Place, value: int) -> bytes:
    """Set an integer field."""
    return _overwritten(root, place, value.to_bytes(place.length, "big", signed=True))


def _add(root: Path, places: Places, place: Place, value: int) -> bytes:
    """Add to an integer field."""
    data = _data(root, place)[place.position : place.position + place.length]
    return _set(root, places, place, int.from_bytes(data, "big", signed=True) + value)


def _flip(root: Path, _places: Places, place: Place, bits: int) -> bytes:
    """Flip bits of the first byte."""
    return _overwritten(root, place, bytes([_data(root, place)[place.position] ^ bits]))


def _zero(root: Path, _places: Places, place: Place, length: int) -> bytes:
    """Overwrite bytes with zeros; 0 means all of the place."""
    return _overwritten(root, place, bytes(length or place.length))


def _write(root: Path, _places: Places, place: Place, text: str) -> bytes:
    """Overwrite bytes with others, in hex."""
    return _overwritten(root, place, bytes.fromhex(text))


def _text(root: Path, _places: Places, place: Place, text: str) -> bytes:
    """Overwrite bytes with text."""
    return _overwritten(root, place, text.encode())


def _copy(root: Path, places: Places, place: Place, source: Spec) -> bytes:
    """Overwrite bytes with those of another place, as they were."""
    return _overwritten(root, place, _original(places, source))


def _swap(root: Path, places: Places, place: Place, other: Spec) -> bytes:
    """Exchange bytes with another place."""
    mine, there = _original_at(places, place), places.find(other)
    (root / there.file).write_bytes(_overwritten(root, there, mine))
    return _overwritten(root, place, _original(places, other))


def _insert(root: Path, _places: Places, place: Place, text: str) -> bytes:
    """Insert bytes in hex; what follows moves on, and as much falls off the end of the file."""
    data = _data(root, place)
    return (data[: place.position] + bytes.fromhex(text) + data[place.position :])[: len(data)]


def _repeat(root: Path, places: Places, place: Place, times: int) -> bytes:
    """Insert copies of the place after it; what follows moves on."""
    after = Place(place.file, place.position + place.length, 0)
    return _insert(root, places, after, (_original_at(places, place) * times).hex())


def _drop(root: Path, _places: Places, place: Place, length: int) -> bytes:
    """Take bytes out; what follows moves up, zeros fill the file; 0 means all of the place."""
    data = _data(root, place)
    length = length or place.length
    return data[: place.position] + data[place.position + length :] + bytes(length)


def _original_at(places: Places, place: Place) -> bytes:
    return (places.root / place.file).read_bytes()[place.position :][: place.length]


def _original(places: Places, spec: Spec) -> bytes:
    return _original_at(places, places.find(spec))


def _truncate(_root: Path, _places: Places, path: Path, size: int) -> None:
    os.truncate(path, size)


def _extend(_root: Path, _places: Places, path: Path, length: int) -> None:
    os.truncate(path, path.stat().st_size + length)


def _delete(_root: Path, _places: Places, path: Path, _value: bool) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _rename(root: Path, places: Places, path: Path, label: str) -> None:
    target = root / places.label(label)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _copy_to(root: Path, places: Places, path: Path, label: str) -> None:
    target = root / places.label(label)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _of_store(root: Path, places: Places, path: Path, name: str) -> None:
    """Put the file of another fixture in its place."""
    shutil.copyfile(places.root.parent / name / path.relative_to(root), path)


def _swap_file(root: Path, places: Places, path: Path, label: str) -> None:
    other, spare = root / places.label(label), root / "spare"
    path.rename(spare)
    other.rename(path)
    spare.rename(other)


def _create(_root: Path, _places: Places, path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _directory(_root: Path, _places: Places, path: Path, _value: bool) -> None:
    path.mkdir(parents=True)


def _fifo(_root: Path, _places: Places, path: Path, _value: bool) -> None:
    os.mkfifo(path)


def _link(_root: Path, _places: Places, path: Path, target: str) -> None:
    path.symlink_to(target)


def _replace(_root: Path, _places: Places, path: Path, texts: list[str]) -> None:
    before = path.read_text()
    assert texts[0] in before, f"{path.name} holds no {texts[0]!r}"
    path.write_text(before.replace(texts[0], texts[1]))


_ON_BYTES: dict[str, Callable[[Path, Places, Place, Any], bytes]] = {
    "set": _set,
    "add": _add,
    "flip": _flip,
    "zero": _zero,
    "write": _write,
    "text": _text,
    "copy": _copy,
    "swap": _swap,
    "insert": _insert,
    "repeat": _repeat,
    "drop": _drop,
}
_ON_FILES: dict[str, Callable[[Path, Places, Path, Any], None]] = {
    "truncate": _truncate,
    "extend": _extend,
    "delete": _delete,
    "rename": _rename,
    "copy_to": _copy_to,
    "of_store": _of_store,
    "swap_file": _swap_file,
    "create": _create,
    "directory": _directory,
    "fifo": _fifo,
    "link": _link,
    "replace": _replace,
}
