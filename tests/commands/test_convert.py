"""``convert``: each message at its queue offset, each address where its message is now, or nothing."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.errors import EnvironmentFailureError, LogDamagedError, RefusedError, UsageError
from rmqtool.formats.checkpoint import TIMER_UNIT
from rmqtool.formats.entry import ENTRIES
from rmqtool.salvage.making import record_crc
from tests.broker.stores import ledger_stores
from tests.builders import properties
from tests.ledgers import LedgerBuilder
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.commands.convert import ConvertReport
    from rmqtool.rows import Message
    from tests.broker.stores import FixtureStore
    from tests.runs import Run

FILE_SIZE = 4096
HOST = "0102030400002A9F"
STORES = pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)


def convert(root: Path, **options: object) -> ConvertReport:
    """Convert a store into ``plain`` beside it."""
    return rmqtool.open(root).convert(root.parent / "plain", jobs=2, **options)  # type: ignore[arg-type]


def messages_in(root: Path) -> dict[str | None, Message]:
    return {message.uniq_key: message for message in rmqtool.open(root).messages()}


def without_place(message: Message) -> Message:
    return replace(message, file="", position=0, physical_offset=0, msg_id="")


def named(key: str, **more: str | bytes) -> bytes:
    return properties({"UNIQ_KEY": key, **more})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@STORES
def test_messages_are_those_of_the_store_but_for_their_places(store: FixtureStore, tmp_path: Path) -> None:
    report = rmqtool.open(store.root, broker_conf=store.conf).convert(tmp_path / "plain", jobs=2)
    made = rmqtool.open(tmp_path / "plain")
    assert (report.messages, report.uncommitted) == (store.recipe["records"], 0)
    for old, new in zip(rmqtool.open(store.root), made, strict=True):
        assert without_place(new) == without_place(old)
    checked = made.verify()
    assert (checked.exit_status(), checked.examined.records) == (0, store.recipe["records"])
    for file in (store.root / "commitlog").glob("*"):
        assert (tmp_path / "plain" / "commitlog" / file.name).read_bytes() == file.read_bytes()
    for file in (store.root / "config").iterdir():
        assert (tmp_path / "plain" / "config" / file.name).read_bytes() == file.read_bytes()


def test_every_address_leads_to_its_message(root: Path) -> None:
    """In fields, in properties and in the timer, over files; what only looks like one stays."""
    log, addresses, place = LedgerBuilder(FILE_SIZE), [], 0
    for number in range(60):
        looks = f"\x02ORIGIN_MESSAGE_ID\x01{HOST}{place:016X}\x02TRANS_OFFSET\x01{place}".encode()
        more = {"ORIGIN_MESSAGE_ID": f"{HOST}{place:016X}", "DLQ_ORIGIN_MESSAGE_ID": f"{HOST}{place:016X}"}
        text = named(f"U{number}", TRANS_OFFSET=str(place), X_ORIGIN_MESSAGE_ID="0", **more)
        place = log.add(
            queueOffset=number,
            preparedTransactionOffset=place,
            properties=text if number % 2 else named(f"U{number}", ORIGIN_MESSAGE_ID=32 * "F"),
            body=looks * (number % 3),
        )
        addresses.append(place)
    log.write(root)
    units = [struct.pack(">iqiqiqi12x", TIMER_UNIT.size, -1, 1, 0, 0, place, 9) for place in addresses]
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020d}").write_bytes(b"".join(units).ljust(8192, b"\0"))
    (root / "timerwheel").write_bytes(bytes(64))
    report = convert(root)
    made, old = messages_in(root.parent / "plain"), messages_in(root)
    places = [made[f"U{number}"].physical_offset for number in range(60)]
    assert max(places) // FILE_SIZE == addresses[-1] // FILE_SIZE > 3
    assert places != addresses
    for number in range(1, 60):
        message, before = made[f"U{number}"], places[number - 1]
        assert message.prepared_transaction_offset == before
        if number % 2:
            assert int(message.properties["TRANS_OFFSET"]) == before
            for name in ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"):
                assert message.properties[name] == f"{HOST}{before:016X}"
        else:
            assert message.properties == old[f"U{number}"].properties
    timer = (root.parent / "plain" / "timerlog" / f"{0:020d}").read_bytes()
    assert [TIMER_UNIT.unpack_from(timer, at * TIMER_UNIT.size)[2] for at in range(60)] == places
    assert report.addresses == {
        "preparedTransactionOffset": 59,
        "messageIds": 60,
        "halfMessageOffsets": 30,
        "timerUnits": 60,
    }
    assert rmqtool.open(root.parent / "plain").verify().exit_status() == 0


def test_an_address_that_leads_to_no_message_stays(root: Path) -> None:
    log = LedgerBuilder(FILE_SIZE, start=FILE_SIZE * 2, first=700)
    first = log.add(properties=named("U0"), preparedTransactionOffset=4000)
    log.add(queueOffset=1, properties=named("U1"), preparedTransactionOffset=first + 1)
    log.write(root)
    report = convert(root)
    made = messages_in(root.parent / "plain")
    assert [made[key].prepared_transaction_offset for key in ("U0", "U1")] == [4000, first + 1]
    assert (report.addresses["unknown"], report.files[0].first_entry, report.start) == (2, 700, FILE_SIZE * 2)


@pytest.mark.parametrize("number", ["9" * 30, "-7", "0", "none"])
def test_a_property_that_names_no_address_stays(root: Path, number: str) -> None:
    """What it holds is anybody's: also a number of more than 64 bits."""
    log = LedgerBuilder(FILE_SIZE)
    log.add(properties=named("U0", TRANS_OFFSET=number))
    log.write(root)
    convert(root)
    assert messages_in(root.parent / "plain")["U0"].properties["TRANS_OFFSET"] == number


def test_a_checksum_over_the_record_holds_if_it_did(root: Path) -> None:
    log = LedgerBuilder(FILE_SIZE)
    for number in range(3):
        text = named(f"U{number}") + b"\x02" + bytes(20)
        raw = record(log.place, queueOffset=number, properties=text)[:-20]
        log.add(raw=raw + (record_crc(raw) if number < 2 else record_crc(raw + b"-")))
    log.write(root)
    convert(root)
    counts = rmqtool.open(root.parent / "plain").verify().findings.counts
    assert counts["CL-PROP-CRC"] == 1


def test_a_record_that_is_longer_than_a_window_is_copied(root: Path) -> None:
    log = LedgerBuilder(1 << 24)
    log.add(properties=named("U0"))
    log.add(queueOffset=1, properties=named("U1"), body=bytes(range(256)) * 40_000)
    log.add(queueOffset=2, properties=named("U2"), preparedTransactionOffset=48)
    log.write(root)
    convert(root)
    found = list(rmqtool.open(root.parent / "plain").messages())
    assert [message.uniq_key for message in found] == ["U0", "U1", "U2"]
    assert rmqtool.open(root.parent / "plain").verify().exit_status() == 0


@pytest.mark.parametrize("queues", [False, True], ids=["no queues", "queues"])
def test_what_is_not_known_to_be_committed_is_left_out_unless_asked_for(root: Path, *, queues: bool) -> None:
    """A queue that leads to an entry shows that it was committed, whatever the checkpoint says."""
    log = LedgerBuilder(FILE_SIZE)
    for number in range(50):
        log.add(queueOffset=number, properties=named(f"U{number}"))
    log.write(root, committed=9)
    if queues:
        made = root.parent / "made"
        rmqtool.open(root).rebuild(out=made)
        shutil.copytree(made / "consumequeue", root / "consumequeue")
    report = convert(root)
    assert (report.entries, report.uncommitted) == ((50, 0) if queues else (10, 40))
    assert len(messages_in(root.parent / "plain")) == report.entries
    assert ("--include-uncommitted" in report.verdict) is not queues
    shutil.rmtree(root.parent / "plain")
    report = convert(root, include_uncommitted=True)
    assert (report.entries, report.uncommitted) == (50, 0)


@pytest.mark.parametrize("place", [1 << 62, 3, -1, FILE_SIZE * 2, 1 << 20])
def test_a_queue_of_garbage_decides_nothing(root: Path, place: int) -> None:
    """The log does, and other queues whose units lead to entries."""
    log = LedgerBuilder(FILE_SIZE)
    places = [log.add(queueOffset=number, properties=named(f"U{number}")) for number in range(50)]
    log.write(root, committed=9)
    for topic, at in (("Bad", place), ("Good", places[29])):
        unit_file = root / "consumequeue" / topic / "0" / f"{0:020d}"
        unit_file.parent.mkdir(parents=True)
        unit_file.write_bytes(struct.pack(">qiq", at, 100, 0).ljust(400, b"\0"))
    report = convert(root)
    assert (report.entries, report.uncommitted) == (30, 20)
    assert rmqtool.open(root.parent / "plain").verify().exit_status() == 0
    assert ("no entry is" in " ".join(report.not_copied.values())) is (place >= 1 << 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [("magic", 3), ("index", 8), ("term", -1), ("pos", 9), ("size", 100), ("body_length", 7)],
)
@pytest.mark.parametrize("committed", [True, False])
def test_of_a_log_that_is_damaged_before_its_committed_end_nothing_is_made(
    root: Path, field: str, value: int, *, committed: bool
) -> None:
    """Behind that end, DLedger would cut the log there, too."""
    log = LedgerBuilder(FILE_SIZE)
    for number in range(12):
        log.add(queueOffset=number, properties=named(f"U{number}"), term=number // 4)
    header = ENTRIES.decode(bytes(log.data), log.entries[9])
    assert header is not None
    changed = header._replace(**{field: value})
    log.data[log.entries[9] : log.entries[9] + ENTRIES.size] = ENTRIES.encode(changed)
    log.write(root, committed=11 if committed else 7)
    if committed:
        with pytest.raises(LogDamagedError, match=f"is damaged at {log.entries[9]}: entry 9 is not there"):
            convert(root, include_uncommitted=True)
        assert sorted(path.name for path in root.parent.iterdir()) == ["store"]
    else:
        assert convert(root, include_uncommitted=True).entries == 9
        assert "after the last entry" in next(
            iter(json.loads((root.parent / "plain" / "convert.json").read_text())["notCopied"].values())
        )


def test_a_file_that_is_missing_or_short_is_damage(root: Path) -> None:
    log = LedgerBuilder(FILE_SIZE)
    for number in range(80):
        log.add(queueOffset=number, properties=named(f"U{number}"))
    files = sorted(log.write(root).iterdir())
    kept = files[1].read_bytes()
    files[1].unlink()
    with pytest.raises(LogDamagedError, match="files of the log are missing from 4096 to 8192"):
        convert(root)
    files[1].write_bytes(kept[:1000])
    with pytest.raises(LogDamagedError, match=r"has 1000 bytes, not 4096 .*verify"):
        convert(root)
    files[1].write_bytes(bytes(FILE_SIZE))
    with pytest.raises(LogDamagedError, match="is damaged at"):
        convert(root)


def test_a_queue_whose_messages_have_all_expired_keeps_its_end(root: Path) -> None:
    log = LedgerBuilder(FILE_SIZE, start=FILE_SIZE)
    log.add(properties=named("U0"))
    log.write(root)
    expired = root / "consumequeue" / "Old" / "0" / f"{0:020d}"
    expired.parent.mkdir(parents=True)
    expired.write_bytes(struct.pack(">qiq", 48, 100, 0).ljust(400, b"\0"))
    assert convert(root).kept_queues == 1
    assert (root.parent / "plain" / expired.relative_to(root)).read_bytes() == expired.read_bytes()


def test_what_cannot_be_converted_is_refused_in_a_sentence(root: Path, run: Callable[..., Run]) -> None:
    log = LedgerBuilder(FILE_SIZE)
    log.add(properties=named("U0"))
    log.write(root, committed=-1)
    with pytest.raises(
        UsageError,
        match="no entry in dledger-n0/ is known to be committed; --include-uncommitted takes all 1",
    ):
        convert(root)
    with pytest.raises(UsageError, match="has no log of DLedger"):
        rmqtool.open(fixture("plain-5.3.3")).convert(root.parent / "plain")
    with pytest.raises(UsageError, match="give its root"):
        rmqtool.open(root / "dledger-n0" / "data").convert(root.parent / "plain")
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    with pytest.raises(
        EnvironmentFailureError, match="dledger-n0: DLedger store, one of several members here: copy each"
    ):
        convert(root)
    shutil.rmtree(root / "dledger-n1")
    (root.parent / "plain").mkdir()
    (root.parent / "plain" / "file").touch()
    with pytest.raises(RefusedError, match="is not an empty directory"):
        convert(root)
    asked = run("convert", root, "--out", root.parent / "plain")
    assert (asked.status, asked.out) == (4, "")
    assert run("convert", root, "--to", "rocksdb", "--out", root.parent / "other").status == 2


def test_the_report_is_text_json_and_a_file(root: Path, run: Callable[..., Run]) -> None:
    shutil.copytree(ledger_stores()[0].root, root)
    told = run("convert", root, "--to", "plain", "--out", root.parent / "plain", "--format", "json").document
    written = json.loads((root.parent / "plain" / "convert.json").read_text())
    assert {name: told[name] for name in written} == written
    text = run("convert", root, "--out", root.parent / "other")
    assert text.out.startswith("93 entries converted, queue offsets are as before.\n")
    assert "enableDLegerCommitLog=false" in text.err


def test_no_link_is_followed(root: Path) -> None:
    """What lies in a store is not trusted: a link may lead to any file of who converts it."""
    converted = next(store for store in ledger_stores() if store.name == "dledgerconverted-5.3.3")
    shutil.copytree(converted.root, root)
    secret = root.parent / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(struct.pack(">qiq", 0, 100, 0) * 9 + b"secret")
    (root / "timerlog").mkdir()
    (root / "consumequeue/Gone/0").mkdir(parents=True)
    links = ["config/planted.json", "config/planted", "timerlog/0", f"consumequeue/Gone/0/{0:020d}"]
    for link in links:
        (root / link).symlink_to(secret if link == "config/planted" else secret / "file")
    report = convert(root)
    assert {*links[:3]} <= report.not_copied.keys()
    plain = root.parent / "plain"
    assert [path for path in plain.rglob("*") if path.is_file() and b"secret" in path.read_bytes()] == []
    shutil.rmtree(plain)
    log = root / "commitlog" / f"{0:020d}"
    log.rename(secret / log.name)
    log.symlink_to(secret / log.name)
    with pytest.raises(EnvironmentFailureError, match="is a link, and no link's target is copied"):
        convert(root)
    assert not plain.exists()
