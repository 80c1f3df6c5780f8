"""What is salvaged into object storage: the same bytes as on a disk, and a manifest, or nothing."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.extra import library
from tests.house.readme import ROOT
from tests.io.s3_results import files_below, objects_below, results_behind_proxy, whole_result
from tests.runs import run_line
from tests.salvage.incidents import bit_rot
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.io.s3_server import Proxy, Reply, Request

library("moto")

pytestmark = pytest.mark.full

NAME = "segments-5.5.1"
CONF = ("-c", str(fixture(NAME) / "broker.conf"))
STORE, OUT = "s3://bucket/store", "s3://bucket/made/out"
REPORTS = {"salvage/salvage.json", "salvage/plan.json", "rebuild.json"}
"""They name the place, or the times of files."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    root = shutil.copytree(fixture(NAME), tmp_path_factory.mktemp("salvage") / "store", ignore=papers)
    bit_rot(root)
    return root


@pytest.fixture(scope="module")
def proxy(damaged: Path) -> Iterator[Proxy]:
    with results_behind_proxy({"store": damaged}) as one:
        yield one


@pytest.mark.parametrize(
    "words",
    [
        "salvage STORE --out OUT --replay REPLAY",
        "salvage STORE --out OUT --holes repeat --jobs 1",
    ],
)
def test_the_result_is_that_of_a_disk(
    words: str, proxy: Proxy, damaged: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = f"{OUT}-{len(words)}"
    places = {"STORE": STORE, "OUT": out, "REPLAY": str(tmp_path / "there.ndjson")}
    proxy.begin(lambda request, reply: reply)
    status, told, err = run_line(capsys, *(places.get(word, word) for word in words.split()), *CONF)
    assert status == 5, err
    assert out in told
    read = [one.path for one in proxy.requests if one.method == "GET" and "/consumequeue/" in one.path]
    assert ("--replay" in words) == (not any(out.removeprefix("s3:/") in path for path in read))
    places = {"STORE": str(damaged), "OUT": str(tmp_path / "out"), "REPLAY": str(tmp_path / "here.ndjson")}
    assert run_line(capsys, *(places.get(word, word) for word in words.split()), *CONF)[0] == 5
    found, expected = whole_result(out), files_below(tmp_path / "out")
    assert found.keys() == expected.keys()
    assert [name for name in expected.keys() - REPORTS if found[name] != expected[name]] == []
    if words.startswith("salvage"):
        assert f"Fetch the files that {out}/manifest.json lists" in err
    if "--replay" in words:
        assert (tmp_path / "there.ndjson").read_bytes() == (tmp_path / "here.ndjson").read_bytes()


def test_a_plan_is_done_there(proxy: Proxy, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, out = str(tmp_path / "plan.json"), f"{OUT}-planned"
    proxy.begin(lambda request, reply: reply)
    assert run_line(capsys, "salvage", STORE, "--plan", plan, *CONF)[0] == 5
    assert run_line(capsys, "salvage", STORE, "--apply", plan, "--out", out, *CONF)[0] == 5
    assert json.loads(whole_result(out)["salvage/salvage.json"])["out"] == out
    status, _, err = run_line(capsys, "salvage", STORE, "--apply", plan, "--out", out, *CONF)
    assert (status, err.splitlines()[-1]) == (
        4,
        f"error: {out}: exists and is not empty; choose another output or remove it",
    )
    assert run_line(capsys, "salvage", STORE, "--out", f"{STORE}/made", *CONF)[0] == 4


@pytest.mark.parametrize("place", ["commitlog", "index", "salvage", "manifest.json"])
def test_a_fault_that_stays_leaves_nothing(
    place: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"{OUT}-failed-{place}"

    def fail(request: Request, reply: Reply) -> Reply:
        is_result = request.method in {"PUT", "POST"} and f"-failed-{place}/{place}" in request.path
        return replace(reply, status=503, headers={}, body=b"") if is_result else reply

    proxy.begin(fail)
    status, told, err = run_line(capsys, "salvage", STORE, "--out", out, "-q", *CONF)
    assert (status, told) == (3, "")
    assert "cannot be written, tried 4 times" in err
    proxy.begin(lambda request, reply: reply)
    assert objects_below(out) == {}


@pytest.mark.parametrize("place", ["commitlog", "index", "manifest.json"])
def test_an_interrupt_leaves_nothing(place: str, proxy: Proxy) -> None:
    """While an object is on its way."""
    out = f"{OUT}-interrupted-{place}"
    line = [sys.executable, "-m", "rmqtool", "salvage", STORE, "--out", out, *CONF]
    begun = threading.Event()

    def note(request: Request, reply: Reply) -> Reply:
        is_result = request.method in {"PUT", "POST"} and f"-interrupted-{place}/{place}" in request.path
        if not is_result:
            return reply
        begun.set()
        return replace(reply, pause_s=1.0)

    proxy.begin(note)
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        until = time.monotonic() + 60
        while not begun.wait(0.1):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < until
        run.send_signal(signal.SIGINT)
        told, err = run.communicate(timeout=300)
    proxy.begin(lambda request, reply: reply)
    assert (run.returncode, told) == (130, ""), err
    assert "Traceback" not in err
    assert objects_below(out) == {}
