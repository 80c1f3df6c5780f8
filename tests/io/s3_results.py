"""What results in object storage are held against: the same ones on a disk, and their manifests."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.io.object_store import ObjectWriter
from rmqtool.io.source import split_url
from rmqtool.store.object_staging import MANIFEST_NAME
from tests.extra import library
from tests.io.s3_server import stores_behind_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.io.s3_server import Proxy


@contextmanager
def results_behind_proxy(stores: Mapping[str, Path]) -> Iterator[Proxy]:
    """Run a server with stores, see `stores_behind_proxy`; what writes there knows no earlier one."""
    with stores_behind_proxy(stores) as one, pytest.MonkeyPatch.context() as patch:
        patch.setattr("rmqtool.store.object_staging._writer", ObjectWriter)
        yield one


def objects_below(url: str) -> dict[str, bytes]:
    """Return what lies below a URL, by name."""
    writer = ObjectWriter(split_url(url)[0])
    return {name: writer.text(f"{url}/{name}") for name in writer.sizes_below(url)}


def names_below(url: str) -> set[str]:
    """Return the names of the objects below a URL, the empty ones that stand for folders among them."""
    client = library("boto3").client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    bucket, _, key = url.removeprefix("s3://").partition("/")
    listed = client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/").get("Contents", [])
    return {one["Key"].removeprefix(f"{key}/") for one in listed}


def files_below(folder: Path) -> dict[str, bytes]:
    """Return what lies in a directory, by name."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def whole_result(url: str) -> dict[str, bytes]:
    """Return what the manifest of a result lists, by name; it lists all that is there, as it is."""
    found = objects_below(url)
    manifest: dict[str, Any] = json.loads(found.pop(MANIFEST_NAME))
    listed = {one["path"]: (one["size_bytes"], one["sha256"]) for one in manifest["files"]}
    assert listed == {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in found.items()}
    return found


_OF_THE_PLACE = {
    "seconds",
    "run",
    "made",
    "modified",
    "next",
    "then",
    "first",
    "outcomes",
    "remedy",
    "retention",
}
"""What the clock says, times of files, and what to do: only a store on a disk is repaired."""


def _plain(value: object) -> object:
    """Return a result without what the clock says, and what to do."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in _OF_THE_PLACE}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def alike(text: str, store: str) -> object:
    """Return what a command printed of a store, without its place, the clock, and what to do next."""
    text = text.replace(store, "STORE")
    return _plain(json.loads(text)) if text.startswith(("{\n", '{"schema"')) else text
