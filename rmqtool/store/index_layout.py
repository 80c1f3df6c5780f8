"""What is wrong with sizes and names of index files, and whether they prove how they are divided."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity
from rmqtool.findings.index import IX_GEOMETRY, IX_SIZE, IX_STRAY, IX_UNUSED
from rmqtool.formats import struct_of
from rmqtool.formats.index import HEADER, HEADER_SIZE
from rmqtool.store.setting import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.root import Store
    from rmqtool.store.segments import StoreFile


def index_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings about the index files.

    Raises:
        EnvironmentFailureError: The directory or a file may not be read.
    """
    for stray in store.index_strays:
        yield Finding(code=IX_STRAY, file=stray.label, message=f"{stray.label} {stray.reason}")
    files = store.index_files
    if not files:
        return
    size = store.settings.index_geometry.size_bytes
    assumed = store.settings["maxHashSlotNum"].origin is Origin.DEFAULT
    used = {file.label: file for file in files if _item_count(file) > 0}
    if used and assumed:
        yield _unproven(next(iter(used.values())), size)
    wrong = [file for file in files if file.size_bytes != size and not assumed]
    if len(wrong) > 1 and len(wrong) == len(files) and len({file.size_bytes for file in files}) == 1:
        text = f"all {len(files)} index files have {files[0].size_bytes} bytes, the settings ask for {size}"
        yield replace(_wrong_size(size, files[0]), message=text)
        wrong = []
    for file in files:
        if file in wrong:
            yield _wrong_size(size, file)
        if file.label not in used:
            yield Finding(code=IX_UNUSED, file=file.label)


def _unproven(file: StoreFile, size: int) -> Finding:
    """Return that no file proves how it is divided, worse if its size does not allow the default either."""
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
    header = file.read_at(0, HEADER_SIZE, [])
    return int(struct_of(HEADER).unpack(header)[-1]) - 1 if len(header) == HEADER_SIZE else 0


def _wrong_size(size: int, file: StoreFile) -> Finding:
    text = f"{file.label} has {file.size_bytes} bytes instead of {size}"
    return Finding(code=IX_SIZE, file=file.label, expected=size, observed=file.size_bytes, message=text)
