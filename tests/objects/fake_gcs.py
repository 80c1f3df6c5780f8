"""fake-gcs-server, an emulator of Google's storage that is written in Go."""

from __future__ import annotations

import os
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.objects.servers import Asked, Server, built, do, listens, needs, running
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODULE = "github.com/fsouza/fake-gcs-server@v1.56.1"
_URL = "gs://box"


def _install(target: Path) -> None:
    # It serves some kilobytes: to make hundreds of packages run faster takes longer than it saves.
    quickly = ("-gcflags=all=-N -l", "-ldflags=-s -w")
    environment = {**os.environ, "GOBIN": str(target), "CGO_ENABLED": "0"}
    do("go", "install", *quickly, _MODULE, folder=target, environment=environment)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run it in a folder."""
    needs("go")
    program = built(_MODULE.rpartition("/")[2], _install) / "fake-gcs-server"
    port = free_ports()
    here = f"http://127.0.0.1:{port}"
    options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    places = ["-public-host", f"127.0.0.1:{port}", "-external-url", here]
    with running([program, *options, *places], folder, lambda: listens(port)):
        _make_bucket(here)
        yield Server(
            Asked(_URL, _environment(here)),
            Asked(_URL, _environment(f"http://127.0.0.1:{free_ports()}"), "Could not connect to server"),
            {
                "credentials": Asked(
                    _URL,
                    _environment(None) | {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/key.json"},
                    "Cannot open credentials file /nowhere/key.json",
                )
            },
            version="generation",
        )


def _make_bucket(server: str) -> None:
    """Make a bucket, which pyarrow does in a project of Google's alone."""
    body = b'{"name": "box"}'
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/storage/v1/b?project=one", body, headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def _environment(server: str | None) -> dict[str, str | None]:
    return {"STORAGE_EMULATOR_HOST": server, "CLOUD_STORAGE_EMULATOR_ENDPOINT": None}
