"""Findings about sizes and names of index files, and about their division into slots and items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, Severity
from rmqtool.findings.codes import IO_DENIED, IX_COUNT, IX_GEOMETRY, IX_SIZE, IX_STRAY, IX_UNUSED
from rmqtool.formats.index import HEADERS
from rmqtool.store.geometry import Geometry, own_geometry
from rmqtool.store.setting import Origin
from rmqtool.store.unread import denied_finding

_WINDOW = 1 << 20

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.store.root import Store
    from rmqtool.store.segments import StoreFile


def index_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings about the index files; `EnvironmentFailureError` if one cannot be read."""
    try:
        strays = store.index_strays
    except DeniedError as failure:
        yield denied_finding(failure, store.base)
        return
    for stray in strays:
        yield Finding(code=IX_STRAY, file=stray.label, message=f"{stray.label} {stray.reason}")
    files, denied = _readable(store.index_files)
    yield from denied
    if not files:
        return
    used = {file.label: file for file in files if _item_count(file) > 0}
    given, origin = store.settings.index_geometry, store.settings["maxHashSlotNum"].origin
    if origin is not Origin.DEFAULT:
        yield from _division_findings(given, files, list(used.values()), is_given=origin is Origin.GIVEN)
    elif used:
        yield _unproven(next(iter(used.values())), given.size_bytes)
    for file in files:
        if file.label not in used:
            yield from _unused(
                file, is_read=origin is not Origin.DEFAULT or file.size_bytes == given.size_bytes
            )


def _readable(files: Iterable[StoreFile]) -> tuple[list[StoreFile], list[Finding]]:
    readable, denied = [], []
    for file in files:
        try:
            file.read_at(0, 1, [])
            readable.append(file)
        except DeniedError as failure:
            denied.append(Finding(code=IO_DENIED, file=file.label, message=failure.reason))
    return readable, denied


def _unused(file: StoreFile, *, is_read: bool) -> Iterator[Finding]:
    """Yield the finding of a file without items, of which with ``is_read`` later checks read the rest."""
    position = None if file.size_bytes < HEADERS.size else _first_byte(file, HEADERS.size)
    if position is None and file.size_bytes >= HEADERS.size:
        yield Finding(code=IX_UNUSED, file=file.label)
    elif not is_read or position is None:
        text = "is too short for a header" if position is None else f"is not zero from {position} on"
        message = f"{file.label} {text}, and its header counts no items: they are lost"
        yield Finding(code=IX_COUNT, file=file.label, position=position or 0, message=message)


def _first_byte(file: StoreFile, start: int) -> int | None:
    """Return the position of the first byte that is not zero; holes of a sparse file are skipped."""
    position = start
    while (position := file.reader.next_data(position)) < file.size_bytes:
        data = file.read_at(position, _WINDOW, [])
        if not data:
            break
        if data.count(0) != len(data):
            return position + len(data) - len(data.lstrip(b"\0"))
        position += len(data)
    return None


def _division_findings(
    given: Geometry, files: Sequence[StoreFile], used: Sequence[StoreFile], *, is_given: bool
) -> Iterator[Finding]:
    """Yield where the division of files is not the given one.

    A size that follows from that is not reported again. With ``is_given``, the user gave it. Else files
    proved it, and files of the same size are not examined, as a proof may take the whole of a damaged file.
    """
    doubtful = [file for file in used if is_given or file.size_bytes != given.size_bytes]
    own = [(file, found) for file in doubtful if (found := own_geometry(file, given)) is not None]
    geometries = {geometry for _, geometry in own}
    if len(own) > 1 and len(own) == len(used) and len(geometries) == 1:
        yield _divided(given, *own[0], "all index files with items have")
    else:
        for file, geometry in own:
            yield _divided(given, file, geometry, f"{file.label} has")
    sizes = {given.size_bytes, *(geometry.size_bytes for geometry in geometries)}
    wrong = [file for file in files if file.size_bytes not in sizes]
    if len(wrong) > 1 and len(wrong) == len(files) and len({file.size_bytes for file in files}) == 1:
        size = given.size_bytes
        text = f"all {len(files)} index files have {files[0].size_bytes} bytes, the settings require {size}"
        yield replace(_wrong_size(size, files[0]), message=text)
    else:
        for file in wrong:
            yield _wrong_size(given.size_bytes, file)


def _divided(given: Geometry, file: StoreFile, own: Geometry, which: str) -> Finding:
    message = (
        f"{which} {own.slots} slots and {own.items} items, not {given.slots} and {given.items}; read by that"
    )
    return Finding(
        code=IX_GEOMETRY, file=file.label, expected=given.slots, observed=own.slots, message=message
    )


def _unproven(file: StoreFile, size: int) -> Finding:
    """Return the finding that no file proves its division, worse if its size excludes the default, too."""
    if file.size_bytes == size:
        message = f"no contents prove how {file.label} is divided; the default for its size is assumed"
        return Finding(code=IX_GEOMETRY, file=file.label, observed=file.size_bytes, message=message)
    message = (
        f"{file.label} has {file.size_bytes} bytes, and its contents fit no number of slots: it is damaged,"
        " and cannot be read without maxHashSlotNum and maxIndexNum"
    )
    return Finding(
        code=IX_GEOMETRY,
        file=file.label,
        expected=size,
        observed=file.size_bytes,
        message=message,
        severity_override=Severity.ERROR,
    )


def _item_count(file: StoreFile) -> int:
    header = HEADERS.decode(file.read_at(0, HEADERS.size, []))
    return 0 if header is None else header.index_count - 1


def _wrong_size(size: int, file: StoreFile) -> Finding:
    text = f"{file.label} has {file.size_bytes} bytes instead of {size}"
    return Finding(code=IX_SIZE, file=file.label, expected=size, observed=file.size_bytes, message=text)
