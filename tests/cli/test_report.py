"""``report`` on real stores, empty ones, damaged ones and such that are kept elsewhere."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.cli.conftest import STORES
from tests.damage.cases import one_of_each_code
from tests.damage.running import damaged_copy, foreseen_once
from tests.report.page.test_page import Page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.damage.cases import Case
    from tests.runs import Run

    Runner = Callable[..., Run]

CASES = one_of_each_code()
QUICK = {"CL-GAP", "CQ-MISSING-MSG", "ST-ROCKSDB", "ST-NO-COMMITLOG"}


def made(run: Runner, store: Path, out: Path, *words: object) -> tuple[Run, Page]:
    """Run ``report`` and parse the page."""
    found = run("report", store, "-o", out, *words)
    return found, Page(out.read_text())


def json_of(run: Runner, store: Path, *words: object) -> dict[str, Any]:
    return run("report", store, "--format", "json", "-q", *words).document


def test_figures_are_those_of_the_messages(run: Runner) -> None:
    """Against the library's own messages, one by one."""
    store = STORES / "plain-5.5.1"
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for message in rmqtool.open(store):
        counts[message.topic] += 1
        sizes[message.topic] += message.total_size
    found = json_of(run, store)
    census = found["verification"]["picture"]["census"]
    assert {one["topic"]: one["messages"] for one in census["topics"]} == counts
    assert {one["topic"]: one["bytes"] for one in census["topics"]} == sizes
    assert found["schema"] == "rmqtool.report/1"
    assert found["exitStatus"] == 0
    lags: Counter[str] = Counter()
    for row in run("offsets", store, "--format", "ndjson").objects[:-1]:
        lags[row["reader"]] += row["lag"]
    reported: Counter[str] = Counter()
    for row in found["backlogs"]:
        reported[row["reader"]] += row["units"]
    assert reported == lags


def test_a_late_flip_is_told_with_its_losses_and_the_next_command(run: Runner, tmp_path: Path) -> None:
    store = tmp_path / "night"
    shutil.copytree(STORES / "plain-5.3.3", store)
    log = store / "commitlog" / "00000000000000049152"
    data = bytearray(log.read_bytes())
    data[3000] ^= 1
    log.write_bytes(data)
    (store / "abort").touch()
    found, page = made(run, store, tmp_path / "page.html")
    assert found.status == 5
    verified = run("verify", store, "--predict-recovery", "--format", "json")
    assert verified.status == 5
    lost = verified.document["predictions"][0]["lost"]
    assert f"The next start cuts off {sum(one['messages'] for one in lost)} messages" in page.text
    assert all(one["topic"] in page.text for one in lost)
    assert verified.document["predictions"][0]["cut"]["code"] == "CL-CRC"
    next_command = f"rmqtool salvage {store} --out {store}.salvaged"
    assert next_command in page.text
    assert f"\nNext: {next_command}\n" in run("verify", store, "--predict-recovery").out
    documents = (verified.document, json_of(run, store))
    words = [{name: one[name] for name in ("verdict", "first", "next", "exitStatus")} for one in documents]
    assert words[0] == words[1]
    assert words[0]["next"] == next_command
    assert words[0]["verdict"] in page.text
    assert "last write before the crash" in page.text
    assert "the next start ends the log here" in page.text


def test_what_it_rests_on(run: Runner, tmp_path: Path) -> None:
    """Digests can be checked with sha256sum; those of the log only where that is asked."""
    store, conf = STORES / "plain-5.5.1", tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\n")
    for words, logs in (((), 0), (("--hash-log",), len(list((store / "commitlog").iterdir())))):
        found = json_of(run, store, "-c", conf, *words)["provenance"]
        digests = {one["file"]: one["sha256"] for one in found["digests"]}
        assert sum(one.startswith("commitlog/") for one in digests) == logs
        assert digests.pop(str(conf)) == hashlib.sha256(conf.read_bytes()).hexdigest()
        assert {"checkpoint", "config/consumerOffset.json"} <= set(digests)
        for file, digest in digests.items():
            assert digest == hashlib.sha256((store / file).read_bytes()).hexdigest()
        assert found["settings"]["mappedFileSizeCommitLog"]["origin"] == "given"
        assert found["command"].startswith("rmqtool report ")
        assert found["version"] == rmqtool.__version__


def test_nothing_is_written_into_the_store(run: Runner, plain_copy: Path, tmp_path: Path) -> None:
    refused = run("report", plain_copy, "-o", plain_copy / "page.html")
    assert (refused.status, refused.out) == (4, "")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert not (plain_copy / "page.html").exists()


def test_a_part_of_a_store_is_refused(run: Runner, tmp_path: Path) -> None:
    found = run("report", STORES / "plain-5.5.1" / "commitlog", "-o", tmp_path / "page.html")
    assert found.status == 2
    assert "give the store root" in found.err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_and_one_without_a_log(run: Runner, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    found, page = made(run, store, tmp_path / "empty.html")
    assert found.status == run("verify", store, "--predict-recovery").status
    assert "There is no commit log." in page.text
    (store / "commitlog" / f"{0:020d}").write_bytes(bytes(8192))
    _, page = made(run, store, tmp_path / "zeros.html", "-p", "mappedFileSizeCommitLog=8192")
    assert "There is no message." in page.text
    assert "zeros" in page.text


def _report_on(case: Case, run: Runner, tmp_path: Path) -> Page:
    """Report on a damaged store: no traceback, and the exit status of verify."""
    root = damaged_copy(case, tmp_path)
    words = [word for text in case.properties for word in ("-p", text)]
    words += ["-c", str(root / "broker.conf")] if (root / "broker.conf").is_file() else []
    with foreseen_once():
        found, page = made(run, root, tmp_path / "page.html", *words)
        verified = run("verify", root, "--predict-recovery", *words)
    assert "internal error" not in found.err
    assert page.open == []
    assert found.status == verified.status
    assert verified.out.splitlines()[0].split(":")[0] in page.text
    return page


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "case", [one for one in CASES if one.code in QUICK], ids=lambda one: f"{one.code}: {one.name}"
)
def test_damaged(case: Case, run: Runner, tmp_path: Path) -> None:
    page = _report_on(case, run, tmp_path)
    if case.code == "ST-ROCKSDB":
        assert "prediction skipped: " in page.text


@pytest.mark.matrix
@pytest.mark.parametrize(
    "case", [one for one in CASES if one.code not in QUICK], ids=lambda one: f"{one.code}: {one.name}"
)
def test_any_damage(case: Case, run: Runner, tmp_path: Path) -> None:
    _report_on(case, run, tmp_path)


@pytest.mark.matrix
def test_every_store(run: Runner, any_store: Path, tmp_path: Path) -> None:
    found, page = made(run, any_store, tmp_path / "page.html")
    assert found.status == run("verify", any_store, "--predict-recovery").status
    assert page.open == []


def test_lost_messages_are_named_on_the_page(run: Runner, tmp_path: Path) -> None:
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    (store / "abort").touch()
    last = store / "commitlog" / "00000000000000049152"
    last.write_bytes(last.read_bytes()[:3000] + b"X" + last.read_bytes()[3001:])
    run("verify", store, "--predict-recovery", "--lost", lost := tmp_path / "lost.ndjson", "-q")
    told = [json.loads(line) for line in lost.read_text().splitlines()]
    _, page = made(run, store, tmp_path / "page.html")
    section = page.text[: page.text.index("The files of the commit log")]
    assert len(told) == 10
    for one in told:
        words = (
            f"{one['topic']}/{one['queueId']}",
            one["queueOffset"],
            one["physicalOffset"],
            one["uniqKey"],
        )
        assert all(str(word) in section for word in words), one
    assert json_of(run, store)["lost"] == told
