"""What the tests ask of a server, and how programs of servers are fetched and run."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.built import cache, once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_BUILD_SECONDS, _START_SECONDS = 900, 180


@dataclass(frozen=True)
class Asked:
    """Where a command asks, and what it has to say.

    Attributes:
        url: The URL of bucket, container or HDFS.
        environment: Variables; None takes one away.
        told: What the sentence has in it.
    """

    url: str
    environment: Mapping[str, str | None] = field(default_factory=dict)
    told: str = ""


@dataclass(frozen=True)
class Server:
    """A server that runs, with nothing in it.

    Attributes:
        asked: How it is asked.
        deaf: The same, where nobody listens.
        without: What lacks what is needed, by what it lacks; variables are beside those of ``asked``.
        version: By what an object that was written anew is known.
    """

    asked: Asked
    deaf: Asked
    without: Mapping[str, Asked]
    version: str


def needs(*programs: str) -> None:
    """Skip a test where a program is missing."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not on PATH: {', '.join(missing)}")


def built(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, made once."""
    return once(cache("objects") / name, make)


def do(*command: str | Path, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command of a build in a folder.

    Raises:
        AssertionError: It failed.
    """
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_SECONDS,
    )
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"


@contextmanager
def running(command: Sequence[str | Path], folder: Path, is_up: Callable[[], bool]) -> Iterator[None]:
    """Run a server in a folder; it is there once ``is_up`` says so."""
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            end = time.monotonic() + _START_SECONDS
            while not is_up():
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.05)
            yield
        finally:
            process.kill()  # what it holds is of no use any more


def listens(port: int) -> bool:
    """Tell whether somebody listens on a port of loopback."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
