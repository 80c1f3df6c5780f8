"""A directory of this machine's, read as HDFS is: by pyarrow, by names, sizes and times of change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow.fs import LocalFileSystem

from rmqtool.io import location_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from rmqtool.io import Location

URL = "hdfs://namenode:8020"


def as_objects(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """Return the place of a directory, as if it were what `URL` names."""
    connection = LocalFileSystem(), str(directory)
    monkeypatch.setattr("rmqtool.io.object_store.connect", lambda top: connection)
    monkeypatch.setattr("rmqtool.io.object_store.PAUSE_S", 0.0)
    return location_of(URL)
