"""What is left of a damaged log of DLedger, as a plain store: messages at their queue offsets, and losses."""

from __future__ import annotations

import json
import random
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.errors import RmqtoolError, UsageError
from rmqtool.formats.checkpoint import TIMER_UNIT
from rmqtool.formats.entry import ENTRIES
from tests.broker.stores import LEDGERS, ledger_stores
from tests.builders import properties
from tests.ledgers import LedgerBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.commands.salvage import SalvageReport
    from tests.broker.stores import FixtureStore
    from tests.runs import Run

FILE_SIZE = 4096
STORES = pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
CONVERTED = LEDGERS / "dledgerconverted-5.3.3"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def salvage(root: Path, **options: object) -> SalvageReport:
    """Salvage a store into ``plain`` beside it."""
    shutil.rmtree(root.parent / "plain", ignore_errors=True)
    return rmqtool.open(root).salvage(root.parent / "plain", jobs=2, **options)  # type: ignore[arg-type]


def files_of(root: Path) -> dict[str, bytes]:
    names = ("commitlog", "consumequeue", "index")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in names
        for path in (root / name).rglob("*")
        if path.is_file()
    }


def contents(root: Path) -> dict[tuple[str, int, int], bytes]:
    """Return the bodies of messages that are no placeholders, by topic, queue and queue offset."""
    return {
        (message.topic, message.queue_id, message.queue_offset): message.body
        for message in rmqtool.open(root).messages()
        if message.body.strip() != b"lost" and message.topic[:7] != "rmqtool"[: len(message.topic)]
    }


def chained(root: Path, start: int = 0) -> list[int]:
    """Write a log in which each message names the place of the one before, and a timer log of all places."""
    log, places, place = LedgerBuilder(FILE_SIZE, start=start), [], 0
    for number in range(60):
        text = properties({"UNIQ_KEY": f"U{number}", "TRANS_OFFSET": str(place)})
        place = log.add(queueOffset=number, preparedTransactionOffset=place, properties=text)
        places.append(place)
    log.write(root)
    units = [struct.pack(">iqiqiqi12x", TIMER_UNIT.size, -1, 1, 0, 0, place, 9) for place in places]
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020d}").write_bytes(b"".join(units).ljust(8192, b"\0"))
    return places


def edit(root: Path, place: int, data: bytes) -> None:
    """Overwrite bytes of the log of entries."""
    for file in (root / "dledger-n0" / "data").iterdir():
        at = place - int(file.name)
        if 0 <= at < FILE_SIZE:
            old = file.read_bytes()
            file.write_bytes(old[:at] + data + old[at + len(data) :])


def verified(root: Path) -> int:
    return int(rmqtool.open(root.parent / "plain").verify().exit_status())


@STORES
def test_of_a_sound_log_it_is_what_convert_makes(store: FixtureStore, tmp_path: Path) -> None:
    opened = rmqtool.open(store.root, broker_conf=store.conf)
    report = opened.salvage(tmp_path / "salvaged", jobs=2)
    opened.convert(tmp_path / "converted", include_uncommitted=True, jobs=2)
    assert report.verdict.startswith("Nothing was lost")
    assert files_of(tmp_path / "salvaged") == files_of(tmp_path / "converted")
    checkpoints = [(tmp_path / name / "checkpoint").read_bytes() for name in ("salvaged", "converted")]
    assert checkpoints[0] == checkpoints[1]
    assert "enableDLegerCommitLog=false" in report.hint


def test_what_is_left_moves_together_and_addresses_with_it(root: Path) -> None:
    places = chained(root)
    edit(root, places[22] - ENTRIES.size, bytes(places[25] - places[22]))
    report = salvage(root)
    assert (report.lost.proven, report.lost.placed, report.records) == (3, 3, 57)
    made = {message.uniq_key: message for message in rmqtool.open(root.parent / "plain") if message.uniq_key}
    assert len(made) == 57
    there = [made[f"U{number}"].physical_offset if f"U{number}" in made else None for number in range(60)]
    there[22] = 4096  # its tombstone is the first in the hole, too
    for number in range(1, 60):
        message, before = made.get(f"U{number}"), there[number - 1]
        if message is not None:
            named = places[number - 1] if before is None else before  # of a lost message, as it was
            assert message.prepared_transaction_offset == named
            assert int(message.properties["TRANS_OFFSET"]) == named
    timer = (root.parent / "plain" / "timerlog" / f"{0:020d}").read_bytes()
    units = [TIMER_UNIT.unpack_from(timer, at * TIMER_UNIT.size)[2] for at in range(60)]
    assert units == [old if new is None else new for old, new in zip(places, there, strict=True)]
    assert report.addresses == {
        "preparedTransactionOffset": 55,
        "halfMessageOffsets": 55,
        "timerUnits": 58,
        "unknown": 4,
    }
    assert verified(root) == 0


def test_headers_of_entries_are_not_needed(root: Path) -> None:
    chance = random.Random(7)
    for place in (places := chained(root)):
        edit(root, place - ENTRIES.size, chance.choice([bytes(ENTRIES.size), chance.randbytes(ENTRIES.size)]))
    before = contents(root)
    report = salvage(root)
    assert (report.records, report.lost.proven, report.exit_status()) == (len(places), 0, 0)
    assert contents(root.parent / "plain") == before
    assert verified(root) == 0


def test_files_that_are_gone_cut_or_all_garbage(root: Path) -> None:
    shutil.copytree(LEDGERS / "dledger-5.3.3", root)
    before = contents(root)
    files = sorted((root / "dledger-n0" / "data").iterdir())
    files[1].unlink()
    files[2].write_bytes(files[2].read_bytes()[:1500])
    files[3].write_bytes(random.Random(3).randbytes(8192))
    report = rmqtool.open(root, broker_conf=root / "broker.conf").salvage(root.parent / "plain", jobs=2)
    after = contents(root.parent / "plain")
    assert after.items() <= before.items()
    assert report.lost.proven + len(after) == len(before)
    sizes = [path.stat().st_size for path in (root.parent / "plain" / "commitlog").iterdir()]
    assert sizes == [8192] * len(files)
    assert verified(root) == 0


@pytest.mark.parametrize("start", [0, FILE_SIZE * 3])
def test_a_hole_of_one_member_is_filled_from_another(root: Path, start: int) -> None:
    places = chained(root, start)
    other = root.parent / "other"
    shutil.copytree(root, other)
    (other / "dledger-n0").rename(other / "dledger-n1")
    rmqtool.open(other).convert(root.parent / "converted", jobs=2)
    edit(root, places[30] - 100, bytes(700))
    report = rmqtool.open(root).salvage(root.parent / "plain", copies=[rmqtool.open(other)], jobs=2)
    assert (report.healed, report.lost.proven, report.exit_status()) == (5, 0, 0)
    assert files_of(root.parent / "plain") == files_of(root.parent / "converted")


def test_older_files_of_a_converted_broker_are_mended_too(root: Path) -> None:
    shutil.copytree(CONVERTED, root)
    before = contents(root)
    for file in [sorted((root / name).iterdir())[0] for name in ("commitlog", "dledger-n0/data")]:
        data = file.read_bytes()
        file.write_bytes(data[:2000] + bytes(900) + data[2900:])
    report = salvage(root)
    after = contents(root.parent / "plain")
    assert after.items() <= before.items()
    assert report.lost.proven + len(after) == len(before)
    assert report.lost.proven > 4
    assert verified(root) == 0


def test_a_plan_is_carried_out_later(root: Path, run: Callable[..., Run]) -> None:
    places = chained(root)
    edit(root, places[20], bytes(500))
    salvage(root)
    plan, out = root.parent / "plan.json", root.parent / "later"
    run("salvage", root, "--plan", plan)
    assert json.loads(plan.read_text())["form"]["entriesFrom"] == 0
    run("salvage", root, "--apply", plan, "--out", out)
    assert files_of(out) == files_of(root.parent / "plain")


@pytest.mark.parametrize("holes", ["filler", "cut"])
def test_other_ways_with_holes(root: Path, holes: str) -> None:
    places = chained(root)
    edit(root, places[20], bytes(500))
    assert salvage(root, holes=holes).records == (20 if holes == "cut" else 58)
    assert verified(root) == (holes == "filler")  # the queue's offsets shift
    with pytest.raises(UsageError, match="--holes repeat is for a plain log"):
        salvage(root, holes="repeat")


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_loses_nothing_silently(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    shutil.copytree(LEDGERS / chance.choice(["dledger-4.9.8", "dledgerconverted-5.5.1"]), root)
    before = contents(root)
    for _ in range(3):
        file = chance.choice([*root.glob("commitlog/*"), *root.glob("dledger-n0/data/*")])
        data, at = file.read_bytes(), chance.randrange(8192)
        new = chance.choice([bytes(400), chance.randbytes(60), b"\x7f" + b"\xff" * 7, b"\0" * 48])
        file.write_bytes(data[:at] + new + data[at + len(new) :] if seed % 4 else data[: at + 1])
    try:
        report = salvage(root)
    except RmqtoolError as failure:
        pytest.fail(str(failure))
    after = contents(root.parent / "plain")
    assert after.items() <= before.items()
    assert report.lost.proven + report.lost.damaged + len(after) >= len(before)
    assert verified(root) == 0
