"""Whole results, on a disk or in object storage, and the folders of results of many stores."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqtool.errors import RefusedError
from rmqtool.io.object_urls import is_object_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.io import Location
    from rmqtool.store.scratch import Target


REBUILD_REPORT = "rebuild.json"
SALVAGE_SIDECARS = "salvage"
SALVAGE_REPORT = f"{SALVAGE_SIDECARS}/salvage.json"
CARVE_REPORT = "carve/carve.json"

"""Reports in results; where one exists, the result is complete."""

_FETCH = "Fetch the files that {out}/manifest.json lists as RESULT, and compare sizes and SHA-256. "


def fetched(out: str) -> tuple[str, str]:
    """Return the step before a result can be used, and the word for its place in a shell line.

    A result on a disk is used where it lies; a name that begins with ``-`` is escaped.
    """
    if is_object_url(out):
        return _FETCH.format(out=out), "RESULT"
    return "", shlex.quote(f"./{out}" if out.startswith("-") else out)


def read_result(out: Target, name: str) -> bytes | None:
    """Return a file of a complete result; None if there is no such result.

    On a disk a result appears by one rename: where the file is, all of it is. In object storage it is
    compared with the manifest. Raises `RefusedError` if an object is not as the manifest says.
    """
    if isinstance(out, Path):
        try:
            return (out / name).read_bytes()
        except OSError:  # the next run that writes there reports why
            return None
    return _read_object(out, name)


def _read_object(out: Location, name: str) -> bytes | None:
    from rmqtool.store.object_staging import MANIFEST_NAME, MANIFEST_SCHEMA, writer_of

    writer = writer_of(out.text)
    files = _files_of(writer.text(f"{out}/{MANIFEST_NAME}"), MANIFEST_SCHEMA)
    if name not in files:
        return None
    sizes = writer.sizes_below(out.text)
    data = writer.text(f"{out}/{name}")
    differing = [path for path, one in files.items() if sizes.get(path) != one["size_bytes"]]
    if not differing and hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
        differing = [name]
    if differing:
        raise RefusedError(
            f"{out}/{differing[0]}: does not match {MANIFEST_NAME} beside it; remove that result to write "
            "it again, or pass another --out"
        )
    return data


def _files_of(manifest: bytes, schema: str) -> dict[str, dict[str, Any]]:
    try:
        document = json.loads(manifest)
    except ValueError:
        return {}
    if not isinstance(document, dict) or document.get("schema") != schema:
        return {}
    return {one["path"]: one for one in document["files"]}


def folder_names(paths: Sequence[str]) -> list[str]:
    """Return a name for each store: as much of the end of its path as is unique.

    ``/data/a/store`` and ``/data/b/store`` become ``a-store`` and ``b-store``; equal paths get numbers.
    """
    unique = [*dict.fromkeys(paths)]
    names = dict(zip(unique, _unique_ends([path.strip("/").split("/") for path in unique]), strict=True))
    return _numbered([names[path] for path in paths])


def _unique_ends(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return ends of paths, longer where they would be the same, until whole paths are used."""
    lengths = [1] * len(parts)
    while True:
        names = ["-".join(one[-length:]) or "root" for one, length in zip(parts, lengths, strict=True)]
        counts = Counter(names)
        longer = [
            length + (counts[name] > 1 and length < len(one))
            for one, length, name in zip(parts, lengths, names, strict=True)
        ]
        if longer == lengths:
            return names
        lengths = longer


def _numbered(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name}-{number}"
        found.append(own)
    return found
