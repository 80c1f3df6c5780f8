"""What a broker takes of damaged settings, and what each way out means for groups and topics."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.doctor.choices import BrokerTakes
from rmqtool.doctor.diagnose import diagnose
from rmqtool.io import location_of
from rmqtool.store import open_store
from rmqtool.store.broker_json import parse_broker_json
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.doctor.choices import ConfigDiagnosis

NOW = '{"offsetTable":{"Orders@billing":{0:9},"TopicTest@readers":{0:21,1:3,2:2}}}'
BEFORE = '{"offsetTable":{"Orders@billing":{0:7},"TopicTest@readers":{0:20,1:3}}}'
CUT = NOW[: NOW.index("1:3") + 4]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")


def offsets(
    root: Path, *, file: str | None = None, bak: str | None = None, tmp: str | None = None
) -> ConfigDiagnosis:
    """Diagnose consumer offsets with these copies."""
    for suffix, text in (("", file), (".bak", bak), (".tmp", tmp)):
        path = root / "config" / f"consumerOffset.json{suffix}"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text, "utf-8")
    found = {one.file: one for one in diagnose(open_store(root, broker_version="5.3.3"))}
    return found["config/consumerOffset.json"]


def test_a_sound_store_needs_no_doctor(root: Path) -> None:
    found = diagnose(open_store(root))
    assert [one.file for one in found] == ["config/consumerOffset.json", "config/topics.json"]
    assert all(one.is_sound and one.obvious and one.choices == () for one in found)


def test_a_cut_file_beside_its_backup_is_put_together(root: Path) -> None:
    """The newer number of each queue, from whichever copy has it: less comes again than with the .bak."""
    found = offsets(root, file=CUT, bak=BEFORE)
    assert (found.broker, found.obvious) == (BrokerTakes.BACKUP, True)
    assert [one.name for one in found.choices] == ["merged", "bak", "prefix", "oldest", "newest"]
    merged, bak = found.choices[:2]
    assert merged.document["offsetTable"] == {
        "Orders@billing": {"0": 9},
        "TopicTest@readers": {"0": 21, "1": 3},
    }
    assert (merged.again_at_least, merged.skipped_at_most) == (0, merged.skipped_at_most)
    assert bak.again_at_least == 3
    assert bak.again_at_most == merged.again_at_most + 3
    assert json.loads(merged.data(location_of(root))) == merged.document


def test_each_choice_tells_what_it_means(root: Path) -> None:
    found = offsets(root, file=CUT, bak=BEFORE)
    by_name = {one.name: one for one in found.choices}
    oldest, newest = by_name["oldest"], by_name["newest"]
    assert oldest.skipped_at_most == 0
    assert oldest.again_at_least == sum(
        one.proven - one.min_offset
        for one in oldest.effects
        if one.proven is not None and one.min_offset is not None
    )
    assert newest.again_at_most == 0
    assert newest.skipped_at_most == sum(
        one.max_offset - (one.proven or 0) for one in newest.effects if one.max_offset is not None
    )


def test_what_was_cut_off_an_entry_is_told(root: Path) -> None:
    """Its last entry may have named more queues than those that are left of it."""
    found = offsets(root, file=CUT)
    assert (found.broker, found.obvious) == (BrokerTakes.NOTHING, False)
    (prefix,) = (one for one in found.choices if one.name == "prefix")
    unknown = [one.queue_id for one in prefix.effects if one.offset is None]
    assert unknown
    assert all(one.topic == "TopicTest" for one in prefix.effects if one.offset is None)


@pytest.mark.parametrize(
    ("file", "bak", "takes"),
    [
        (NOW, None, BrokerTakes.FILE),
        ("", BEFORE, BrokerTakes.BACKUP),
        (None, BEFORE, BrokerTakes.BACKUP),
        ("\0" * 90, BEFORE, BrokerTakes.BACKUP),
        ("\0" * 90, None, BrokerTakes.NOTHING),
        ("\0" * 90, "", BrokerTakes.NOTHING),
        ("  ", BEFORE, BrokerTakes.NOTHING),
        ("null", BEFORE, BrokerTakes.NOTHING),
        ("\0" * 90, "\0" * 90, BrokerTakes.REFUSES),
        (CUT, CUT, BrokerTakes.REFUSES),
        ("", "\0" * 90, BrokerTakes.REFUSES),
    ],
)
def test_what_a_broker_takes(root: Path, file: str | None, bak: str | None, takes: BrokerTakes) -> None:
    assert offsets(root, file=file, bak=bak).broker is takes


def test_a_temporary_file_is_newer_than_the_backup(root: Path) -> None:
    """4.x writes it first; a broker never looks at it."""
    found = offsets(root, file="", bak=BEFORE, tmp=NOW)
    assert [one.name for one in found.choices][:3] == ["merged", "tmp", "bak"]
    assert found.choices[1].data(location_of(root)) == NOW.encode()
    assert found.choices[0].document["offsetTable"] == found.choices[1].document["offsetTable"]
    assert found.choices[1].copy_of == "config/consumerOffset.json.tmp"


TAIL = BEFORE[-20:]
"""The end of an older, longer text, over which a shorter one was written."""


@pytest.mark.parametrize(
    ("copies", "names", "obvious"),
    [
        ({"file": NOW + TAIL}, ["whole", "oldest", "newest"], True),
        ({"file": NOW + TAIL, "bak": BEFORE}, ["whole", "merged", "bak", "oldest", "newest"], True),
        ({"file": BEFORE + TAIL, "bak": NOW.replace("Orders", "Gone")}, ["whole", "merged", "bak"], False),
        ({"file": CUT, "bak": BEFORE + TAIL}, ["merged", "bak-whole", "prefix"], True),
        ({"bak": BEFORE + TAIL}, ["bak-whole", "oldest", "newest"], True),
    ],
)
def test_what_is_whole_in_front_of_old_bytes(
    root: Path, copies: dict[str, str], names: list[str], *, obvious: bool
) -> None:
    """A broker cannot decode it; nothing of it is lost."""
    found = offsets(root, **copies)
    assert [one.name for one in found.choices][: len(names)] == names
    assert found.obvious is obvious
    trailed = [copy for copy in found.copies if str(copy).endswith("is whole plus old bytes")]
    (text,) = (text for text in copies.values() if text.endswith("}" + TAIL))
    assert [copy.document for copy in trailed] == [parse_broker_json(text.removesuffix(TAIL))]


def test_what_holds_nothing_of_use_is_shown(root: Path) -> None:
    """A broker starts on neither, but with the groups that are known from elsewhere, or without any."""
    for suffix in ("", ".bak"):
        (root / "config" / f"subscriptionGroup.json{suffix}").write_text("<nil>")
    found = {one.file: one for one in diagnose(open_store(root))}["config/subscriptionGroup.json"]
    assert [str(copy) for copy in found.copies] == [
        f'config/subscriptionGroup.json{suffix} is broken, it holds "<nil>"' for suffix in ("", ".bak")
    ]
    assert (found.broker, found.obvious) == (BrokerTakes.REFUSES, False)
    groups, empty = found.choices
    assert (groups.name, empty.name) == ("groups", "empty")
    table = {name: {"groupName": name} for name in ("billing", "readers")}
    assert groups.document == {"subscriptionGroupTable": table}
    assert (empty.document, empty.missing) == ({"subscriptionGroupTable": {}}, ("billing", "readers"))


def test_nothing_is_left(root: Path) -> None:
    """Then nothing is put in its place, not even zeros."""
    found = offsets(root, file="\0" * 90)
    assert (found.choices, found.obvious) == ((), False)


def test_topics_that_only_have_queues(root: Path) -> None:
    path = root / "config" / "topics.json"
    text = path.read_text("utf-8")
    path.write_text(text[:400], "utf-8")
    (found,) = (one for one in diagnose(open_store(root)) if one.file == "config/topics.json")
    assert [one.name for one in found.choices] == ["queues", "prefix"]
    queues, prefix = found.choices
    assert not found.obvious
    assert set(prefix.missing) == set(queues.document["topicConfigTable"]) - {"Orders"}
    for topic in prefix.missing:
        numbers = [int(one.name) for one in (root / "consumequeue" / topic).iterdir()]
        assert queues.document["topicConfigTable"][topic]["readQueueNums"] == max(numbers) + 1


def test_delay_levels_without_any_copy(root: Path) -> None:
    """Their queues are known: from the start all come again, from the end all that wait are lost."""
    (root / "config" / "delayOffset.json").write_bytes(bytes(60))
    shutil.copytree(
        root / "consumequeue" / "Orders" / "0", root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2"
    )
    (found,) = (one for one in diagnose(open_store(root)) if one.file == "config/delayOffset.json")
    assert {one.name: list(one.document["offsetTable"]) for one in found.choices} == {
        "oldest": ["3"],
        "newest": ["3"],
    }
    oldest, newest = found.choices
    assert (oldest.again_at_most, oldest.skipped_at_most) == (newest.skipped_at_most, newest.again_at_most)
    assert oldest.again_at_most > 0


def test_settings_that_rocksdb_keeps_are_not_judged(root: Path) -> None:
    (root / "config" / "consumerOffset.json").write_bytes(b"")
    (root / "config" / "rdb").mkdir()
    assert diagnose(open_store(root)) == ()
