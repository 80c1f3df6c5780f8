"""Azurite, Microsoft's emulator of Azure's storage, of npm; it has no hierarchical namespace."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.objects.servers import Asked, Server, built, do, listens, needs, running
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION = "3.35.0"
_KEY = "a2V5"
_URL = "abfss://box@one.dfs.core.windows.net"


def _install(target: Path) -> None:
    do("npm", "install", "--no-audit", "--no-fund", "--prefix", target, f"azurite@{_VERSION}", folder=target)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run it in a folder."""
    needs("npm", "node")
    program = built(f"azurite-{_VERSION}", _install) / "node_modules/azurite/dist/src/blob/main.js"
    port = free_ports()
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with (
        patch.dict(os.environ, AZURITE_ACCOUNTS=f"one:{_KEY}"),
        running(["node", program, "--blobPort", str(port), *options], folder, lambda: listens(port)),
    ):
        yield Server(
            Asked(_URL, _environment(port)),
            Asked(_URL, _environment(free_ports()), "Could not connect to server"),
            {
                "another key": Asked(_URL, _environment(port, "eWVr"), "rmqtool help objects"),
                "no key": Asked(_URL, _environment(port, None), "rmqtool help objects"),
                "another account": Asked(_URL.replace("one", "two"), {}, "is of the account one, not of two"),
            },
            version="ETag",
        )


def _environment(port: int, key: str | None = _KEY) -> dict[str, str | None]:
    told = f"AccountName=one;BlobEndpoint=http://127.0.0.1:{port}/one;"
    secret = "" if key is None else f"AccountKey={key};"
    return {
        "AZURE_STORAGE_CONNECTION_STRING": told + secret,
        "AZURE_STORAGE_KEY": None,
        "AZURE_STORAGE_SAS_TOKEN": None,
    }
