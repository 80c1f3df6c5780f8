"""``config``: what a broker makes of its file; ``tests/broker`` holds values against the real classes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.schemas.validating import defects
from tests.store.fixture_stores import STORES, fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    _Run = Callable[..., Run]


def remarks(run: _Run, tmp_path: Path, content: bytes | str, *words: object) -> dict[tuple[str, str], Any]:
    """The remarks on a file, by kind and name."""
    file = tmp_path / "broker.conf"
    file.write_bytes(content.encode("iso-8859-1") if isinstance(content, str) else content)
    ran = run("config", file, "--format", "json", *words)
    document = ran.document
    assert ran.status == document["exitStatus"]
    assert ran.status == any(row["severity"] == "error" for row in document["rows"])
    return {(row["kind"], row["name"]): row for row in document["rows"]}


CASES: list[tuple[str, str, tuple[str, str], str]] = [
    (
        "mapedFileSizeCommitLog=1",
        "5.5.1",
        ("unknown", "mapedFileSizeCommitLog"),
        "did you mean mappedFileSizeCommit",
    ),
    ("commitLogRecoverMaxNum=3", "5.3.3", ("unknown", "commitLogRecoverMaxNum"), "brokers from 5.4.0 on do"),
    ("fileReservedTime=72h", "5.3.3", ("ignored", "fileReservedTime"), "and the default, 72, counts"),
    ("fileReservedTime=72 ", "5.5.1", ("ignored", "fileReservedTime"), "because of the blank after it"),
    ("brokerRole=slave", "5.5.1", ("ignored", "brokerRole"), "it is none of ASYNC_MASTER"),
    ("slaveReadEnable=yes", "5.5.1", ("changed", "slaveReadEnable"), "false counts: all but true is false"),
    ("slaveReadEnable=true ", "5.5.1", ("changed", "slaveReadEnable"), "a blank follows it"),
    ("diskMaxUsedSpaceRatio=99", "4.9.8", ("changed", "diskMaxUsedSpaceRatio"), "95 counts"),
    (
        "mappedFileSizeConsumeQueue=6000001",
        "4.9.8",
        ("changed", "mappedFileSizeConsumeQueue"),
        "6000020 counts",
    ),
    ("timerPrecisionMs=700", "5.3.3", ("changed", "timerPrecisionMs"), "500 counts"),
    ("brokerId=1\nbrokerId=2\nbrokerRole=SLAVE", "5.3.3", ("twice", "brokerId"), "named 2 times"),
    ("brokerRole=SLAVE", "4.9.8", ("risk", "brokerId"), "ends at its start"),
    ("brokerId=1", "4.9.8", ("risk", "brokerId"), "0 counts with ASYNC_MASTER"),
    (
        "enableControllerMode=true\nenableDLegerCommitLog=true",
        "5.3.3",
        ("risk", "enableControllerMode"),
        "the broker ends at its start",
    ),
    ("haListenPort=9", "4.9.8", ("risk", "haListenPort"), "listenPort and one"),
    ("deleteWhen=04:00", "5.5.1", ("risk", "deleteWhen"), "nothing is ever deleted"),
    ("deleteWhen=04;16 ; 3", "4.9.8", ("risk", "deleteWhen"), "but in the hour 4"),
    ("deleteWhen=24", "5.5.1", ("risk", "deleteWhen"), "only a full disk makes room"),
    ("fileReservedTime=0", "5.5.1", ("risk", "fileReservedTime"), "every file but the last"),
    ("diskMaxUsedSpaceRatio=90", "5.5.1", ("risk", "diskMaxUsedSpaceRatio"), "above 85 % files go"),
    ("cleanFileForciblyEnable=false", "5.5.1", ("risk", "cleanFileForciblyEnable"), "stops all writing"),
    ("transientStorePoolEnable=true", "5.5.1", ("risk", "transientStorePoolEnable"), "a kill loses"),
    (
        "transientStorePoolEnable=true\nflushDiskType=SYNC_FLUSH",
        "4.9.8",
        ("risk", "transientStorePoolEnable"),
        "does not count",
    ),
    ("checkCRCOnRecover=false", "5.5.1", ("risk", "checkCRCOnRecover"), "damaged bodies"),
    ("enableLmq=true", "5.5.1", ("risk", "enableLmq"), "enableMultiDispatch=true"),
    ("storePathRootDir=~/store", "5.5.1", ("path", "storePathRootDir"), "neither ~ nor variables"),
    ("storePathRootDir=store", "5.5.1", ("path", "storePathRootDir"), "relative to the directory"),
    (
        "storePathCommitLog=/nowhere/a,/tmp",
        "5.5.1",
        ("path", "storePathCommitLog"),
        "/nowhere/a is not there",
    ),
    ("brokerName=\\u00zz", "5.5.1", ("refused", ""), "no broker starts with it"),
    (
        "rocketmq.broker.diskSpaceCleanForciblyRatio=0.9",
        "5.5.1",
        ("unknown", "rocketmq.broker.diskSpaceCleanForciblyRatio"),
        "-Drocketmq.broker.diskSpaceCleanForciblyRatio=VALUE",
    ),
    (
        "authenticationEnabled=yes",
        "5.5.1",
        ("changed", "authenticationEnabled"),
        "false counts: all but true is false",
    ),
    (
        "tieredStoreFilePath=/t",
        "4.9.8",
        ("unknown", "tieredStoreFilePath"),
        "a broker of 4.9.8 does not read it; it is of 5.x",
    ),
]


@pytest.mark.parametrize(("content", "release", "key", "says"), CASES)
def test_each_kind_of_remark(
    run: _Run, tmp_path: Path, content: str, release: str, key: tuple[str, str], says: str
) -> None:
    assert says in remarks(run, tmp_path, content, "--release", release)[key]["message"]


THREADS = {
    "2260 2264": (
        "mapedFileSizeConsumeQueue=300000\nmaxCommitLogFilesNumber=100\nstorePathConsumeQueue=/data/cq\n"
        "fileReservedTime=6\ndeleteWhen=04\n",
        {"mapedFileSizeConsumeQueue", "maxCommitLogFilesNumber", "storePathConsumeQueue"},
    ),
    "3097": ("storePathConsumerQueue=/data/cq\n", {"storePathConsumerQueue"}),
    "10708": ("fileReservedTime = 168 \nbrokerRole = SYNC_MASTER \n", {"fileReservedTime"}),
    "1251 1560 7191": ("mapedFileSizeConsumeQueue=200\n", {"mapedFileSizeConsumeQueue"}),
    "1231": ("storePathCommitLog=/rocketmq\n", {"storePathRootDir"}),
}
"""Files that people asked about in RocketMQ's tracker, and the settings that were the cause."""


@pytest.mark.parametrize("thread", THREADS)
def test_files_that_people_asked_about(run: _Run, tmp_path: Path, thread: str) -> None:
    text, causes = THREADS[thread]
    told = remarks(run, tmp_path, text, "--release", "5.3.3", "--store", fixture("plain-5.3.3"))
    named = {name for kind, name in told if kind in {"unknown", "ignored", "path"}}
    assert causes <= named
    assert named <= causes | {"storePathRootDir", "storePathCommitLog"}


@pytest.mark.parametrize("release", ["4.9.8", "5.3.3", "5.4.0", "5.5.1"])
def test_nothing_is_wrong_with_files_that_brokers_ran_with(run: _Run, release: str) -> None:
    stores = [path for path in sorted(STORES.iterdir()) if path.name.endswith(release)]
    assert len(stores) > 10
    for store in stores:
        ran = run("config", store / "broker.conf", "--release", release, "--store", store, "--format", "json")
        assert (ran.status, [row for row in ran.document["rows"] if row["kind"] != "path"]) == (0, []), (
            store.name
        )


def test_what_the_store_was_made_with(run: _Run, tmp_path: Path) -> None:
    store = fixture("plain-5.3.3")
    told = remarks(run, tmp_path, "mappedFileSizeConsumeQueue=200\n", "--store", store)
    size = told["store", "mappedFileSizeCommitLog"]
    assert (size["severity"], size["value"], size["effective"]) == ("error", None, 1 << 30)
    assert "the default, but the store was made with 8192" in size["message"]
    assert ("store", "mappedFileSizeConsumeQueue") not in told
    assert "opens store/ in its user's home" in told["path", "storePathRootDir"]["message"]
    told = remarks(run, tmp_path, f"storePathRootDir={tmp_path}\n", "--store", store)
    assert "another place" in told["path", "storePathRootDir"]["message"]
    told = remarks(run, tmp_path, f"storePathRootDir={store}\n", "--store", store)
    assert ("path", "storePathRootDir") not in told


def test_a_ledger_needs_its_setting(run: _Run, tmp_path: Path) -> None:
    store = STORES.parent / "dledger" / "dledger-5.3.3"
    assert ("store", "enableDLegerCommitLog") in remarks(run, tmp_path, "", "--store", store)
    with_it = remarks(run, tmp_path, "enableDLegerCommitLog=true", "--store", store)
    assert ("store", "enableDLegerCommitLog") not in with_it


def test_from_one_release_to_another(run: _Run, tmp_path: Path) -> None:
    text = "commitLogRecoverMaxNum=3\naclEnable=true\n"
    told = remarks(run, tmp_path, text, "--release", "4.9.8", "--release", "5.5.1")
    assert told["release", "transactionCheckInterval"]["message"].startswith(
        "60000 with 4.9.8, 30000 with 5.5.1"
    )
    assert ("release", "listenPort") not in told  # a broker sets it before it reads the file
    back = remarks(run, tmp_path, text, "--release", "5.5.1", "--release", "4.9.8")
    assert "5.5.1 reads it, 4.9.8 does not" in back["release", "commitLogRecoverMaxNum"]["message"]


@pytest.mark.parametrize(
    "content", [b"", bytes(range(256)) * 9, b"=\n:\n\\\n", b"a" * 70_000, b"\xff\xfe" * 99]
)
def test_hostile_files(run: _Run, tmp_path: Path, content: bytes) -> None:
    remarks(run, tmp_path, content)
    ran = run("config", tmp_path / "broker.conf")
    assert "\x1b" not in ran.out


def test_what_is_no_file(run: _Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    for path, status in (
        (tmp_path / "none", 3),
        (tmp_path, 3),
        (tmp_path / "pipe", 3),
        (tmp_path / "large", 2),
    ):
        ran = run("config", path)
        assert (ran.status, ran.out) == (status, "")
        assert str(path) in ran.err
    store = fixture("plain-5.3.3")
    assert run("config", store / "broker.conf", "--release", "1.2").status == 2
    assert run("config", store / "broker.conf", *["--release", "5.5.1"] * 3).status == 2


def test_forms(run: _Run, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerRole=slave\nfoo=1\n")
    assert defects("config", json.loads(run("config", file, "--format", "json").out)) == []
    lines = run("config", file, "--format", "ndjson").objects
    for line in lines:
        assert defects("config-line", line) == []
    assert [line["type"] for line in lines] == ["remark", "remark", "summary"]
    assert (
        run("config", file, "--format", "csv")
        .out.splitlines()[1]
        .startswith("remark,ignored,error,brokerRole")
    )
    assert run("config", file, "--fail-on", "never").status == 0
    file.write_text("foo=1\n")
    assert run("config", file, "--fail-on", "warning").status == 1
    assert "as it says" in run("config", file).out
