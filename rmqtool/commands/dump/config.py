"""Entries of the broker's JSON files in ``config/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Severity, Structure
from rmqtool.findings.places import ST_CONFIG
from rmqtool.store.broker_json import parse_broker_json, read_config_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store, StoreFile


def dump_config(store: Store) -> Iterator[rows.ConfigEntry | rows.Damage]:
    """Yield the entries of the config files that are shown, and of the ``.bak`` after a bad one.

    Java: ``ConfigManager#load`` (4.9.8, 5.3.3), which takes the ``.bak`` in the same cases.
    """
    for file, backup in store.config_files:
        found = list(_file_rows(file))
        yield from found
        if backup is not None and any(isinstance(row, rows.Damage) for row in found):
            yield from _file_rows(backup)


def _file_rows(file: StoreFile) -> Iterator[rows.ConfigEntry | rows.Damage]:
    try:
        text = read_config_text(file.path)
        if not text.strip():
            yield _damage(file, "is empty")
            return
        document = parse_broker_json(text)
    except (EnvironmentFailureError, ValueError) as failure:
        yield _damage(file, f"cannot be decoded: {failure}")
        return
    yield from _entries(file.label, document)


def _entries(label: str, document: object) -> Iterator[rows.ConfigEntry]:
    """Yield the members of the tables in a document; any other member is one entry."""
    if not isinstance(document, dict):
        yield rows.ConfigEntry(label, None, None, document)
        return
    for name, value in document.items():
        if isinstance(value, dict):
            for entry, content in value.items():
                yield rows.ConfigEntry(label, name, entry, content)
        else:
            yield rows.ConfigEntry(label, None, name, value)


def _damage(file: StoreFile, reason: str) -> rows.Damage:
    return rows.Damage(
        file=file.label,
        position=0,
        physical_offset=None,
        length=file.size_bytes,
        code=ST_CONFIG,
        message=f"{file.label} {reason}",
        structure=Structure.STORE,
        severity_override=Severity.ERROR,
    )
