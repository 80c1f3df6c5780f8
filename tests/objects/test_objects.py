"""Stores on servers of Azure's and Google's storage, and on HDFS: all is as on a disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.io.s3_results import alike, files_below
from tests.objects import azurite, fake_gcs, hdfs
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.objects.servers import Asked, Server

    Answer = tuple[int, str, str]
    """Exit status, standard output and standard error."""

pytestmark = pytest.mark.objects

SERVERS = {"abfss": azurite.serving, "gs": fake_gcs.serving, "hdfs": hdfs.serving}
LOG = "whole/commitlog/00000000000000000000"
COMMANDS = {
    "info": "info TOP/whole --format json",
    "verify": "verify TOP/whole --predict-recovery all --format json",
    "query": "query TOP/whole --key customer-6 --explain --format json",
    "dump": "dump TOP/whole --format ndjson --body hex",
    "damage": "verify TOP/damaged --predict-recovery all --format json",
}
STATUS = {"damage": 5}
SILENT_S = 60
"""For a process that asks where nobody listens; most of it are the pauses of Azure's client."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store, and a copy of it with a byte of the log gone bad and a queue cut off."""
    place = tmp_path_factory.mktemp("stores")
    for name in ("whole", "damaged"):
        shutil.copytree(fixture("plain-5.5.1"), place / name)
    with (place / "damaged" / LOG.partition("/")[2]).open("r+b") as log:
        log.seek(3000)
        log.write(b"\xff")
    os.truncate(place / "damaged/consumequeue/Orders/0/00000000000000000000", 30)
    return place


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, stores: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with SERVERS[request.param](tmp_path_factory.mktemp("server")) as one:
        steps(one.asked, tmp_path_factory.mktemp("upload"), ["upload", str(stores), one.asked.url])
        yield one


@pytest.fixture(scope="module")
def answers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Answer]:
    """Return what the commands say of the server's stores."""
    folder = tmp_path_factory.mktemp("answers")
    lines = (["run", *line.replace("TOP", server.asked.url).split()] for line in COMMANDS.values())
    return dict(zip(COMMANDS, steps(server.asked, folder, *lines), strict=True))


def steps(asked: Asked, folder: Path, *taken: Sequence[str], timeout: float = 120) -> list[Any]:
    """Take steps in another process, see `tests.objects.within`; it says nothing beside."""
    environment = {
        name: value for name, value in (os.environ | asked.environment).items() if value is not None
    }
    result = subprocess.run(
        [sys.executable, "-m", "tests.objects.within", folder / "answers"],
        input=json.dumps(taken),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    found: list[Any] = json.loads((folder / "answers").read_text())
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_the_same_as_of_a_disk(
    command: str,
    server: Server,
    answers: Mapping[str, Answer],
    stores: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = run_line(capsys, *COMMANDS[command].replace("TOP", str(stores)).split())
    status, *texts = answers[command]
    assert status == here.status == STATUS.get(command, 0)
    expected = [alike(text, str(stores)) for text in (here.out, here.err)]
    assert [alike(text, server.asked.url) for text in texts] == expected
    assert here.out


def test_what_is_made_is_the_same(
    server: Server, stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rebuild there, read there again, and one here."""
    url, near, far = server.asked.url, tmp_path / "near", tmp_path / "far"
    assert run_line(capsys, *f"rebuild {stores}/whole --out {near} --engine local -q".split())[0] == 0
    made = [f"rebuild {url}/whole --out {out} --engine local -q".split() for out in (f"{url}/rebuilt", far)]
    log = f"storePathCommitLog={url}/whole/commitlog"
    *runs, listed, verified, again = steps(
        server.asked,
        tmp_path,
        *(["run", *words] for words in made),
        ["contents", f"{url}/rebuilt"],
        ["run", "verify", f"{url}/rebuilt", "-p", log, "--format", "json"],
        ["run", *made[0]],
    )
    assert [status for status, *_ in runs] == [0, 0], runs
    expected = {name: hashlib.sha256(data).hexdigest() for name, data in files_below(near).items()}
    found = {name: hashlib.sha256(data).hexdigest() for name, data in files_below(far).items()}
    for digests in (expected, found, listed):
        del digests["rebuild.json"]  # it names the store and the clock
    assert found == listed == expected
    assert verified[0] == 0
    assert again[0] == 4
    assert "exists and is not empty" in again[2]


def test_what_is_not_there_is_one_sentence(server: Server, tmp_path: Path) -> None:
    places = [f"{server.asked.url}/nothing", f"{server.asked.url}/whole/nothing"]
    for place, answer in zip(
        places, steps(server.asked, tmp_path, *(["run", "info", one] for one in places)), strict=True
    ):
        told = f"error: {place}: No such file or directory; give a store root or a part of one\n"
        assert answer == [3, "", told]


def test_no_server_is_an_error_and_no_finding(server: Server, tmp_path: Path) -> None:
    url = f"{server.deaf.url}/whole"
    ((status, out, err),) = steps(server.deaf, tmp_path, ["run", "verify", url], timeout=SILENT_S)
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert f"{url}: cannot be examined, tried 2 times" in err
    assert server.deaf.told in err
    assert "no verdict on the store" in err


def test_what_is_missing_is_named(server: Server, tmp_path: Path) -> None:
    """Credentials, or what HDFS is asked by."""
    for asked in server.without.values():
        both = type(asked)(asked.url, {**server.asked.environment, **asked.environment})
        ((status, out, err),) = steps(both, tmp_path, ["run", "info", f"{asked.url}/whole"], timeout=SILENT_S)
        assert (status, out, err.count("\n")) == (3, "", 1)
        assert asked.told in err


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_file_that_changes_amid_reading_is_an_error(command: str, server: Server, tmp_path: Path) -> None:
    url = server.asked.url
    words = [command, f"{url}/whole", "--format", "ndjson"]
    ((status, _, err),) = steps(server.asked, tmp_path, ["changed", f"{url}/{LOG}", *words])
    assert status == 3
    assert f"{url}/{LOG}: was changed while it was read (" in err
    assert f"{server.version} was" in err
