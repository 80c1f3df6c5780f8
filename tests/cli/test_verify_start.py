"""One verdict: what the next start does is in the first line, the exit status and every format."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.broker.stores import fixture_store
from tests.cli.conftest import STORES
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


def case(code: str, number: int, folder: Path) -> Path:
    """Make the damaged store of the n-th case of a code."""
    return damaged_copy([one for one in load_cases() if one.code == code][number - 1], folder)


def test_a_store_that_will_not_start_is_status_5(run: Callable[..., Run], tmp_path: Path) -> None:
    store = case("CP-STRAY", 1, tmp_path)
    assert run("verify", store).status == 0
    junit, sarif = tmp_path / "junit.xml", tmp_path / "verify.sarif"
    words = ["verify", store, "--predict-recovery"]
    done = run(*words, "--report", f"junit:{junit}", "--report", f"sarif:{sarif}")
    assert done.status == 5
    assert done.out.startswith(f"No damage found; a 5.3.3 broker will not start on it: {store}\n")
    assert "No damage found" not in done.out.partition("\n")[2]
    document = run(*words, "--format", "json").document
    assert (document["result"], document["exitStatus"]) == ("start-refused", 5)
    assert "NS-REFUSED" in document["counts"]
    failed = [
        one.attrib["name"] for one in ET.parse(junit).iter("testcase") if one.find("failure") is not None
    ]
    assert failed == ["NS-REFUSED the broker will not start"]
    (result,) = json.loads(sarif.read_text())["runs"]
    assert result["invocations"][0]["exitCode"] == 5
    assert "NS-REFUSED" in {one["ruleId"] for one in result["results"]}
    assert run(*words, "--fail-on", "never").status == 0


def test_a_start_that_loses_messages_is_status_5(run: Callable[..., Run], tmp_path: Path) -> None:
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    (store / "abort").touch()
    (store / "checkpoint").unlink()
    log = store / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    done = run("verify", store, "--predict-recovery", "--format", "json")
    (lost,) = [one for one in done.document["findings"] if one["code"] == "NS-LOSES"]
    assert (done.status, done.document["result"], lost["observed"]) == (5, "log-damage", 163)
    assert lost["root"] == f"CL-CRC@{lost['physicalOffset']}"
    first = run("verify", store, "--predict-recovery").out.splitlines()[0]
    assert first == (
        "The commit log is damaged; 1 message is there but damaged; the next start of a 5.3.3 broker loses"
        f" 163 messages and gives 163 queue offsets a second time: {store}"
    )


def test_releases_after_whose_start_all_is_delivered_are_told_apart(run: Callable[..., Run]) -> None:
    """4.9 writes no batch queues."""
    line = run("verify", STORES / "batchcq-5.3.3", "--predict-recovery", "all").out.splitlines()[0]
    assert "; the next start of a 4.9.8 broker never delivers up to 60 messages of the log; a 5.3.3," in line


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_a_start_that_only_puts_derived_files_right_is_a_warning(
    run: Callable[..., Run], version: str
) -> None:
    """What heals by itself harms nobody."""
    store = STORES / f"crash-{version}"
    assert run("verify", store).status == 0
    done = run("verify", store, "--predict-recovery", "--format", "json")
    assert (done.status, done.document["result"]) == (0, "clean")
    assert "NS-REBUILDS" in done.document["counts"]
    first = run("verify", store, "--predict-recovery").out.splitlines()[0]
    assert f"a {version} broker will start, lose no message, and correct queues or index first" in first


def test_a_start_that_keeps_all_is_told_so(run: Callable[..., Run], plain: Path) -> None:
    done = run("verify", plain, "--predict-recovery")
    assert done.status == 0
    assert done.out.startswith(f"No damage found; a 4.9.8 broker will start and lose nothing: {plain}\n")


@pytest.mark.few(1)
@pytest.mark.parametrize("code", ["ST-ROCKSDB", "ST-DLEDGER"])
def test_other_layouts_have_a_report_and_no_prediction(
    run: Callable[..., Run], tmp_path: Path, code: str
) -> None:
    store = case(code, 1, tmp_path)
    done = run("verify", store, "--predict-recovery")
    assert done.status == 3
    assert done.out.startswith("No verdict, not all of it was read (without ")
    assert "the next start cannot be predicted" in done.out.splitlines()[0]
    assert "\n  prediction skipped: " in done.out
    assert "Next: " not in done.out
    document = run("verify", store, "--predict-recovery", "--format", "json").document
    assert document["counts"]["NS-SKIPPED"] == 1


@pytest.mark.parametrize(("number", "is_predicted"), [(0, True), (24576, False)])
def test_a_log_file_by_its_number_is_loaded_by_the_order_of_texts(
    run: Callable[..., Run], plain: Path, tmp_path: Path, number: int, is_predicted: bool
) -> None:
    """After all others, 4.9.8 appends to it, into files that are there; before them it is in its place."""
    plain = shutil.copytree(plain, tmp_path / "store")
    (plain / "commitlog" / f"{number:020d}").rename(plain / "commitlog" / str(number))
    done = run("verify", plain, "--predict-recovery")
    assert done.status == 5
    assert ("prediction skipped" in done.out) is not is_predicted
    assert "First: on a copy, put back the file of the log that lies under another name" in done.out
    assert f"Next: cp -a --sparse=always {plain} {plain}.copy" in done.out


def test_settings_that_change_a_recovery_leave_it_unknown(run: Callable[..., Run], plain: Path) -> None:
    done = run("verify", plain, "--predict-recovery", "-p", "recheckReputOffsetFromCq=true")
    assert done.status == 0
    assert "the next start cannot be predicted" in done.out.splitlines()[0]
    assert "prediction skipped: recheckReputOffsetFromCq=true: the broker begins its dispatch" in done.out


# What was not looked at


def test_a_part_beside_its_log_is_compared_with_it(run: Callable[..., Run], tmp_path: Path) -> None:
    store = case("CQ-MISSING-MSG", 1, tmp_path)
    for part in ("consumequeue", "consumequeue/Orders", "consumequeue/Orders/0"):
        done = run("verify", store / part, "--format", "json")
        assert (done.status, done.document["notLookedAt"]) == (1, []), part
        errors = [one for one in done.document["findings"] if one["severity"] == "error"]
        assert [(one["code"], one["topic"], one["queueId"]) for one in errors] == [
            ("CQ-MISSING-MSG", "Orders", 0)
        ]
    assert run("verify", store / "consumequeue" / "TopicTest").status == 0
    assert run("verify", store / "index").status == 0


@pytest.mark.parametrize(
    ("part", "limit"),
    [
        ("consumequeue", "queues alone: not compared with the log"),
        ("index", "index alone: not compared with the log"),
    ],
)
def test_a_part_alone_says_so(run: Callable[..., Run], tmp_path: Path, part: str, limit: str) -> None:
    store = case("CQ-MISSING-MSG", 1, tmp_path)
    shutil.rmtree(store / "commitlog")
    done = run("verify", store / part)
    assert done.status == 0
    said = f"No damage found in the examined part ({limit}): "
    assert done.out.startswith(said)


@pytest.mark.parametrize(
    ("level", "limit"), [(0, "names and sizes only"), (1, "not compared with the log"), (2, "every message")]
)
def test_no_level_promises_more_than_it_did(
    run: Callable[..., Run], plain: Path, level: int, limit: str
) -> None:
    first = run("verify", plain, "--level", level).out.splitlines()[0]
    assert first.startswith(f"No damage found in the examined part (level {level}: ")
    assert limit in first


def test_one_file_is_not_asked_for_what_lies_in_others(run: Callable[..., Run], plain: Path) -> None:
    for path in (
        sorted((plain / "consumequeue" / "TopicTest" / "0").iterdir())[0],
        sorted((plain / "index").iterdir())[0],
    ):
        done = run("verify", path)
        assert done.status == 0
        assert "one file: the files beside it were not checked" in done.out.splitlines()[0]


# Wrong verdicts that were found


def test_a_queue_whose_only_file_has_no_place_is_an_error(run: Callable[..., Run], tmp_path: Path) -> None:
    """Brokers load it and serve none of its messages."""
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    queue = next(
        path for path in sorted((store / "consumequeue").glob("*/*")) if len(list(path.iterdir())) == 1
    )
    (file,) = queue.iterdir()
    file.rename(queue / f"{7:020d}")
    for words in ([], ["-c", store / "broker.conf"]):
        done = run("verify", store, *words, "--format", "json")
        assert (done.status, "CQ-FILE-NAME" in done.document["counts"]) == (1, True)


@pytest.mark.full
def test_an_index_file_without_its_first_page_is_no_unused_one(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    *others, last = sorted((store / "index").iterdir())
    for path in others:
        path.unlink()
    data = last.read_bytes()
    last.write_bytes(bytes(100) + data[100:])
    for words in ([], ["-c", store / "broker.conf"]):
        done = run("verify", store, *words)
        assert done.status == 1
        assert done.out.startswith("Damage outside the commit log")
        assert "IX-COUNT" in done.out
        assert "IX-UNUSED" not in run("verify", store, *words, "-v").out


@pytest.mark.parametrize("state", ["lost", "stale", "cut"])
def test_an_index_that_is_not_all_there_is_told_in_the_first_line(
    run: Callable[..., Run], tmp_path: Path, state: str
) -> None:
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    files = sorted((store / "index").iterdir())
    for path in files if state == "lost" else files[1:]:
        path.unlink()
    if state == "cut":
        files[0].write_bytes(b"\0")
    first = run("verify", store).out.splitlines()[0]
    assert ("Damage outside the commit log" if state == "cut" else "but the index lacks ") in first


_OF_A_COPY = "let storePathCommitLog and storePathEpochFile, where they are set, name what is in the copy"


def test_one_lost_file_explains_what_pointed_into_it(run: Callable[..., Run], tmp_path: Path) -> None:
    store = case("CL-GAP", 1, tmp_path)
    shown = run("verify", store).out
    assert [line for line in shown.splitlines() if line.startswith(("ERROR", "WARNING"))] == [
        "ERROR CL-GAP file missing between files"
    ]
    for follows in ("25 CQ-DANGLING", "76 IX-DANGLING", "8 CL-QOFF-GAP"):
        assert f"\n  Explains {follows}, " in shown
    found = run("verify", store, "--format", "json").document["findings"]
    assert {one["root"] for one in found if one["severity"] != "info"} == {None, "CL-GAP@16384"}
    assert [one["code"] for one in found if one["root"] is None] == ["CL-GAP", "CL-TAIL-ZERO"]
    assert "\nFirst: look for the 25 lost messages in a replica or a backup" in shown
    assert f"\nNext: cp -a --sparse=always {store} {store}.copy\n" in shown


@pytest.mark.parametrize("apart", ["link", "setting", "link to the store"])
def test_a_copy_has_the_log_that_lies_elsewhere(run: Callable[..., Run], tmp_path: Path, apart: str) -> None:
    """``cp -a`` copies a link: a start on such a copy would cut the original log."""
    store, log = case("CL-GAP", 1, tmp_path), tmp_path / "log"
    before = {path.name: path.read_bytes() for path in (store / "commitlog").iterdir()}
    if apart == "link to the store":
        log = store
        store = tmp_path / "link"
        store.symlink_to(log)
    else:
        (store / "commitlog").rename(log)
    if apart == "link":
        (store / "commitlog").symlink_to(log)
    settings = ("-p", f"storePathCommitLog={log}") if apart == "setting" else ()
    shown = run("verify", store, *settings).out.splitlines()
    line = next(line for line in shown if line.startswith("Next: "))
    assert line.startswith(f"Next: tar -chSf {store}.copy.tar {store}")
    assert any(_OF_A_COPY in line for line in shown) is (apart == "setting")
    subprocess.run(shlex.split(line.removeprefix("Next: ")), check=True, capture_output=True)
    with tarfile.open(f"{store}.copy.tar") as archive:
        archive.extractall(tmp_path / "copy", filter="data")
    copied = tmp_path / "copy" / str(log if apart == "setting" else store / "commitlog").lstrip("/")
    assert not copied.is_symlink()
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_a_copy_has_the_epochs_that_lie_elsewhere(run: Callable[..., Run], tmp_path: Path) -> None:
    store, epochs = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store"), tmp_path / "epochs"
    (store / "commitlog" / f"{8192:020d}").rename(store / "commitlog" / "old")
    epochs.write_text("1\n0\n1-0\n")
    shown = run("verify", store, "-p", f"storePathEpochFile={epochs}").out
    assert f"\nNext: tar -chSf {store}.copy.tar {store} {epochs}\n" in shown
    assert _OF_A_COPY in shown


def test_a_light_queue_named_twice_is_no_damage(run: Callable[..., Run]) -> None:
    for version in ("4.9.8", "5.3.3", "5.4.0", "5.5.1"):
        done = run("verify", STORES / f"lmqtwice-{version}", "--format", "json")
        assert (done.status, done.document["counts"]["LMQ-TWICE"]) == (0, 9)
        found = [one for one in done.document["findings"] if one["code"] == "LMQ-TWICE"]
        assert [one["observed"] for one in found] == [2, 3, 2, 2, 3, 2, 2, 3, 2]


def test_a_start_that_forgets_its_settings_is_no_good_news(run: Callable[..., Run], tmp_path: Path) -> None:
    """Headline, status, Next and prediction say what the finding says."""
    root = fixture_store("plain-5.5.1").copy_to(tmp_path / "store")
    for name in ("topics.json", "consumerOffset.json"):
        (root / "config" / name).write_bytes(b"")
    found = run("verify", root, "--predict-recovery")
    forgets = "a 5.5.1 broker will start and forget what consumerOffset.json held and what topics.json held"
    assert found.out.startswith(f"Damage outside the commit log; {forgets}: ")
    assert found.status == 5
    assert f"Next: rmqtool repair {root} --plan" in found.out
    assert "forgets   its topics, and deletes their consume queues (config/topics.json)" in found.out
    assert f"Next: rmqtool repair {root} --plan" in run("verify", root).out
    document = run("verify", root, "--predict-recovery", "--format", "json").document
    assert document["result"] == "start-forgets"
    files = [one["file"] for one in document["predictions"][0]["forgets"]]
    assert files == ["config/consumerOffset.json", "config/topics.json"]
    for name in ("topics.json", "consumerOffset.json"):
        (root / "config" / name).write_bytes(b"{}")
    found = run("verify", root, "--predict-recovery")
    assert found.out.startswith(f"Damage outside the commit log; {forgets}: ")
    assert found.out.count("(found no entries)") == 2


def test_offsets_beyond_their_queues_stand_in_the_first_line(run: Callable[..., Run], tmp_path: Path) -> None:
    root = fixture_store("plain-5.3.3").copy_to(tmp_path / "store")
    path = root / "config" / "consumerOffset.json"
    path.write_text(path.read_text().replace("{0:9", "{0:99"))
    found = run("verify", root)
    assert found.status == 0
    assert found.out.startswith("No damage found, but 1 consumer offset lies beyond the end of a queue: ")


def test_level_0_has_no_figures_of_what_it_does_not_read(run: Callable[..., Run]) -> None:
    found = run("verify", fixture_store("plain-5.3.3").root, "--level", 0)
    assert "contents  not read; --level 1, 2 or 3 reads them" in found.out
    assert " 0 records" not in found.out
