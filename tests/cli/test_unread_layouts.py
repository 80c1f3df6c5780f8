"""Stores whose log or queues lie in a form that is not read: never called clean, and left where they are."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

UNREAD = ["dledger", "queues in RocksDB", "storeType is set"]


def _database(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name in ("CURRENT", "MANIFEST-000004", "000012.sst"):
        (directory / name).write_text("x")


def _unread(kind: str, store: Path) -> list[str]:
    """Make a store one of a kind; return the words that tell a command of it."""
    if kind == "dledger":
        (store / "dledger-n0" / "data").mkdir(parents=True)
        (store / "dledger-n0" / "data" / "00000000000000000000").write_bytes(bytes(4000))
    elif kind == "queues in RocksDB":
        shutil.rmtree(store / "consumequeue")
        _database(store / "consumequeue")
    return ["-p", "storeType=defaultRocksDB"] if kind == "storeType is set" else []


@pytest.mark.parametrize("kind", UNREAD)
def test_nothing_is_advised_that_takes_its_place(
    run: Callable[..., Run], plain_copy: Path, kind: str, tmp_path: Path
) -> None:
    words = _unread(kind, plain_copy)
    (plain_copy / "abort").touch()  # which a repair would set aside of a store that it knows
    verified = run("verify", plain_copy, *words)
    assert (verified.status, "Next: " in verified.out) == (3, False)
    assert verified.out.startswith("No verdict, not all of it was read (without ")
    made = run("rebuild", plain_copy, "--engine", "local", "--out", tmp_path / "out", *words)
    assert made.status == 3
    assert "To install" not in made.out + made.err
    assert "Complete" not in made.out
    repaired = run("repair", plain_copy, "--plan", *words, "--format", "json")
    assert (repaired.status, repaired.document["steps"]) == (3, [])


def test_only_a_part_of_a_converted_log_is_compared_with_nothing(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    """Units of what DLedger holds lie beyond ``commitlog/``: a real 5.3.3 serves them."""
    _unread("dledger", plain_copy)
    for file in sorted((plain_copy / "commitlog").iterdir())[3:]:
        file.unlink()
    for part in (".", "consumequeue", "consumequeue/Orders/0"):
        done = run("verify", plain_copy / part, "--format", "json").document
        assert {one for one in done["counts"] if one.startswith(("CQ", "IX"))} == set(), part
        assert done["result"] == "unreadable"
        assert "dledger-n0" in done["notLookedAt"][-1]


def test_offsets_of_queues_in_a_database_are_not_held_against_files(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    """Files that a switch of storeType left behind end before what consumers have read."""
    (plain_copy / "config").mkdir(exist_ok=True)
    (plain_copy / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@g":{"0":999}}}')
    assert "OF-AHEAD" in run("verify", plain_copy, "--format", "json").document["counts"]
    words = ("-p", "storeType=defaultRocksDB", "--format", "json")
    assert "OF-AHEAD" not in run("verify", plain_copy, *words).document["counts"]


def test_a_damaged_log_is_said_beside_queues_that_are_not_read(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    shutil.rmtree(plain_copy / "consumequeue")
    _database(plain_copy / "consumequeue")
    sorted((plain_copy / "commitlog").iterdir())[2].unlink()
    done = run("verify", plain_copy)
    assert (done.status, done.out.startswith("The commit log is damaged")) == (5, True)
    assert "Next: cp -a" in done.out


def test_what_replicas_have_not_confirmed_is_not_missing(run: Callable[..., Run], plain_copy: Path) -> None:
    """Of two queues one has units of records behind the offset: they prove that those were confirmed."""
    words = ("-p", "enableControllerMode=true", "--format", "json")
    files = sorted((plain_copy / "consumequeue" / "TopicTest" / "0").iterdir())
    data = bytearray(files[-1].read_bytes())
    last = max(at for at in range(0, len(data), 20) if any(data[at : at + 20]))
    place = int.from_bytes(data[last : last + 8], "big")
    data[last : last + 20] = bytes(20)
    files[-1].write_bytes(data)
    checkpoint = bytearray((plain_copy / "checkpoint").read_bytes())
    checkpoint[32:40] = place.to_bytes(8, "big")
    (plain_copy / "checkpoint").write_bytes(checkpoint)
    assert run("verify", plain_copy, *words[2:]).document["counts"]["CQ-MISSING-MSG"] == 1
    found = run("verify", plain_copy, *words, "--predict-recovery").document
    assert found["counts"].keys() & {"NS-SKIPPED", "ST-UNCONFIRMED"} == {"NS-SKIPPED", "ST-UNCONFIRMED"}
    others = sorted((plain_copy / "consumequeue").glob("*/*/*"))
    ends = []
    for file in others:
        units = [file.read_bytes()[at : at + 12] for at in range(0, file.stat().st_size, 20)]
        ends += [int.from_bytes(one[:8], "big") + int.from_bytes(one[8:], "big") for one in units]
    assert ("CQ-MISSING-MSG" in found["counts"]) == (max(ends) > place)
    made = run("rebuild", plain_copy, "--engine", "local", "--dry-run", *words)
    assert made.document["partial"]
    repaired = run("repair", plain_copy, "--plan", *words)
    assert repaired.document["steps"] == []


def test_a_log_of_which_nothing_is_confirmed_is_not_rebuilt_to_nothing(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    checkpoint = bytearray((plain_copy / "checkpoint").read_bytes())
    checkpoint[32:40] = bytes(8)
    (plain_copy / "checkpoint").write_bytes(checkpoint)
    words = ("rebuild", plain_copy, "--engine", "local", "-p", "enableControllerMode=true")
    refused = run(*words, "--out", tmp_path / "out")
    assert refused.status == 4
    assert "confirm offset 0" in refused.err
    assert "--until-offset" in refused.err
    assert not (tmp_path / "out").exists()
    assert run(*words, "--dry-run", "--until-offset", "32768", "--format", "json").document["records"] > 0


@pytest.mark.parametrize("place", [32768, 46672, 49152])
def test_what_replicas_have_not_confirmed_has_no_items_either(
    run: Callable[..., Run], plain_copy: Path, place: int, tmp_path: Path
) -> None:
    """Queues and index end at the confirm offset; below it, what the index lacks is missing all the same."""
    made = tmp_path / "out"
    run("rebuild", plain_copy, "--engine", "local", "--out", made, "--until-offset", str(place))
    for name in ("consumequeue", "index"):
        shutil.rmtree(plain_copy / name)
        (made / name).rename(plain_copy / name)
    checkpoint = bytearray((plain_copy / "checkpoint").read_bytes())
    checkpoint[32:40] = place.to_bytes(8, "big")
    (plain_copy / "checkpoint").write_bytes(checkpoint)
    shutil.rmtree(plain_copy / "config")
    assert {"CQ-MISSING-MSG", "IX-GONE"} <= run("verify", plain_copy, "--format", "json").document[
        "counts"
    ].keys()
    (plain_copy / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    found = run("verify", plain_copy)
    assert found.status == 0
    assert "Next: " not in found.out
    counts = run("verify", plain_copy, "--format", "json").document["counts"]
    assert counts.keys() & {"CQ-MISSING-MSG", "IX-GONE", "IX-MISSING", "ST-UNCONFIRMED"} == {"ST-UNCONFIRMED"}
    sorted((plain_copy / "index").iterdir())[-1].unlink()
    assert "IX-GONE" in run("verify", plain_copy, "--format", "json").document["counts"]


def test_files_of_one_log_directory_are_no_damaged_log(run: Callable[..., Run], plain_copy: Path) -> None:
    other = plain_copy / "other"
    other.mkdir()
    for file in sorted((plain_copy / "commitlog").iterdir())[1::2]:
        file.rename(other / file.name)
    alone = run("verify", plain_copy, "--format", "json")
    assert (alone.status, "CL-GAP" in alone.document["counts"]) == (3, False)
    assert run("rebuild", plain_copy, "--engine", "local", "--dry-run").status == 3
    both = f"storePathCommitLog={plain_copy / 'commitlog'},{other}"
    assert run("verify", plain_copy, "-p", both).status == 0


def test_compaction_files_that_do_not_pair_stop_the_start(run: Callable[..., Run], plain_copy: Path) -> None:
    """Real brokers, 5.3.3 and 5.5.1, load such a store with ``enableCompaction=false`` only."""
    queue = plain_copy / "compaction" / "compactionLog" / "T" / "0"
    queue.mkdir(parents=True)
    (plain_copy / "compaction" / "compactionCq" / "T" / "0").mkdir(parents=True)
    (queue / "60720.delete").write_bytes(b"x")
    words = ("--predict-recovery", "--broker-version")
    for version, setting, status in (("5.3.3", "true", 5), ("5.3.3", "false", 1), ("4.9.8", "true", 1)):
        found = run("verify", plain_copy, *words, version, "-p", f"enableCompaction={setting}")
        assert found.status == status, (version, setting)
        assert ("will not start" in found.out.splitlines()[0]) == (status == 5)
        assert "Next: rmqtool rebuild" not in found.out
