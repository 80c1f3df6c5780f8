"""What is predicted of a start is what the broker does: on whole, damaged and half-written stores."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from rmqtool.store.broker_json import parse_broker_json
from tests.broker import jvm
from tests.broker.ext_cases import EXT_EDITS
from tests.broker.start_cases import EDITS
from tests.broker.starts import Case, judged
from tests.broker.stores import fixture_store, fixture_stores
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.recovery.states import is_not_predicted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.recovery import Prediction
    from tests.damage.cases import Case as DamageCase

pytestmark = [pytest.mark.broker, pytest.mark.every_store]

EACH_VERSION = pytest.mark.parametrize("version", jvm.VERSIONS)
# 5.4.0 and 5.5 start by the same rules but for what fixtures and cases show: one store of 5.4.0 will do.
RULES: list[jvm.Version] = [version for version in jvm.VERSIONS if version != "5.4.0"]
EACH_RULES = pytest.mark.parametrize("version", RULES)
_OF_THE_BROKER_AROUND = {"CF-BACKUP", "CF-FORGETS", "CF-REFUSED"}
_DAMAGED = [
    (kind, version)
    for kind in ("plain", "segments", "expiredhead")
    for version in jvm.VERSIONS
    if kind == "plain" or version in RULES
]
_KILLED_STORES = 3
_KILLED_AFTER_MS = 2600


def _report(outcomes: Iterator[tuple[Case, Prediction, list[str]]]) -> str:
    return "\n".join(f"{case.name}: {text}" for case, _, found in outcomes for text in found)


@EACH_VERSION
def test_every_fixture_as_it_is_and_after_a_kill(version: jvm.Version, tmp_path: Path) -> None:
    """Stores, with and without abort and checkpoint, start as predicted on the broker that made them.

    So do they on another one, which changes from store to store.
    """
    cases = []
    for number, store in enumerate(fixture_stores()):
        others = [other for other in jvm.VERSIONS if other != store.version]
        if version not in {store.version, others[number % len(others)]}:
            continue
        for what in ("as it is", "abort", "abort, no checkpoint"):
            if what == "abort, no checkpoint" and store.version != version:
                continue
            root = store.copy_to(tmp_path / f"{number}-{what.replace(', ', '-')}")  # a comma splits paths
            if what != "as it is":
                (root / "abort").touch()
            if what == "abort, no checkpoint":
                (root / "checkpoint").unlink()
            cases.append(Case(f"{store.name}, {what}", root, store.conf))
    assert _report(judged(version, cases)) == ""


@pytest.mark.parametrize(("kind", "version"), _DAMAGED)
def test_damage_of_every_kind(kind: str, version: jvm.Version, tmp_path: Path) -> None:
    """Each kind of damage, after a clean and an unclean stop, is met as predicted.

    Only the plain stores meet all of it, those of each line of rules both ways. Stores of another kind meet a
    third of it, each version another one.
    """
    store = fixture_store(f"{kind}-{version}")
    edits = [edit for edit in EDITS if edit.in_store or version == "4.9.8"]
    both = kind == "plain" and version in RULES
    cases = []
    for number, edit in enumerate(edits):
        if kind != "plain" and number % len(RULES) != RULES.index(version):
            continue
        for unclean in (False, True) if both else (number // len(RULES) % 2 == 0,):
            root = store.copy_to(tmp_path / f"{number}-{unclean}")
            edit.apply(root, store.conf)
            if unclean:
                (root / "abort").touch()
            name = f"{edit.name}{', abort' if unclean else ''}"
            cases.append(Case(name, root, store.conf))
    assert _report(judged(version, cases, count_missing=True)) == ""


@EACH_RULES
@pytest.mark.parametrize("kind", ["ext", "extbitmap"])
def test_ext_files(kind: str, version: jvm.Version, tmp_path: Path) -> None:
    """What a start deletes of ext files, and what of them keeps it from starting."""
    store = fixture_store(f"{kind}-{version}")
    cases = []
    for number, edit in enumerate(EXT_EDITS):
        for unclean in (False, True):
            root = store.copy_to(tmp_path / f"{number}-{unclean}")
            edit.apply(root, store.conf)
            if unclean:
                (root / "abort").touch()
            cases.append(Case(f"{edit.name}{', abort' if unclean else ''}", root, store.conf))
    outcomes = list(judged(version, cases))
    assert _report(iter(outcomes)) == ""
    assert any(
        "consumequeue_ext" in label for _, prediction, _ in outcomes for label in prediction.deleted_files
    )


@EACH_RULES
def test_every_damage_case(version: jvm.Version, tmp_path: Path) -> None:
    """What the case files do to stores is met as predicted, whichever version made the store."""
    cases = []
    for number, damage in enumerate(one for one in load_cases() if _is_for_a_store(one, version)):
        (folder := tmp_path / str(number)).mkdir()
        root, conf = damaged_copy(damage, folder), folder / "broker.conf"
        if not _decodes(root / "config" / "topics.json"):
            continue  # the judge reads it before the store's classes begin
        settings = fixture_store(damage.store).conf.read_text("utf-8")
        conf.write_text("\n".join([settings, *damage.properties, ""]), "utf-8")
        cases.append(Case(f"{damage.code}: {damage.name}", root, conf))
    assert _report(judged(version, cases)) == ""


def _is_for_a_store(damage: DamageCase, version: jvm.Version) -> bool:
    """Whether a store's classes meet it: not config files, nor a FIFO that is opened for ever.

    Nor stores whose start the prediction refuses: ``tests/recovery`` has those.

    Nor, in 4.9, a size that exhausts the heap, which many stores share here.
    """
    if version == "4.9.8" and damage.code == "CL-HUGE-SIZE":
        return False
    fifo = any("fifo" in edit for edit in damage.edits)
    wheel = any(edit.get("file") == "timerwheel" for edit in damage.edits)  # the broker around opens it
    return not (fifo or wheel or damage.code in _OF_THE_BROKER_AROUND or is_not_predicted(damage))


def _decodes(path: Path) -> bool:
    try:
        return not path.exists() or bool(parse_broker_json(path.read_text("utf-8")))
    except ValueError:
        return False


@EACH_RULES
def test_brokers_killed_while_they_write(version: jvm.Version, tmp_path: Path) -> None:
    """What a kill leaves behind, units and entries lagging, is recovered by two versions as predicted."""
    conf = fixture_store(f"plain-{version}").conf
    stores = [jvm.Found(tmp_path / str(number), conf) for number in range(_KILLED_STORES)]
    jvm.kill(version, _KILLED_AFTER_MS + random.randrange(800), stores)
    for reader in (version, RULES[(RULES.index(version) + 1) % len(RULES)]):
        cases = []
        for number in range(_KILLED_STORES):
            for what in ("abort", "clean", "no checkpoint"):
                root = tmp_path / f"{number}-{what}-{reader}"
                shutil.copytree(tmp_path / str(number), root)
                if what == "clean":
                    (root / "abort").unlink()
                if what == "no checkpoint":
                    (root / "checkpoint").unlink()
                cases.append(Case(f"{number}, {what}, on {reader}", root, conf))
        assert _report(judged(reader, cases, count_missing=True)) == ""


_OTHER_FILES = {
    "empty": "",
    "the old name": "mapedFileSizeConsumeQueue=200",
    "the old names": "mapedFileSizeCommitLog=8192\nmapedFileSizeConsumeQueue=200\nmaxHashSlotNum=25",
    "no size of the queues": "mappedFileSizeCommitLog=8192\nmaxHashSlotNum=25\nmaxIndexNum=40",
    "no size of the log": "mappedFileSizeConsumeQueue=200\nmaxHashSlotNum=25\nmaxIndexNum=40",
    "no slots and items": "mappedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=200",
}


@EACH_VERSION
def test_a_file_of_settings_that_does_not_name_what_the_store_has(
    version: jvm.Version, tmp_path: Path
) -> None:
    """A broker has the defaults of its release for all that its own file does not name."""
    cases = []
    for kind in ("plain", "ext", "lmq"):
        for number, (name, text) in enumerate(_OTHER_FILES.items()):
            store = fixture_store(f"{kind}-{version}")
            root = store.copy_to(tmp_path / f"{kind}-{number}")
            for path in sorted((root / "index").iterdir())[1:]:
                path.unlink()  # each would grow to 420 MB
            conf = tmp_path / f"{kind}-{number}.conf"
            conf.write_text(text)
            cases.append(Case(f"{kind}: {name}", root, conf))
    outcomes = list(judged(version, cases))
    assert _report(iter(outcomes)) == ""
    assert [prediction.loads for _, prediction, _ in outcomes] == [
        False,
        False,
        False,
        False,
        False,
        True,
    ] * 3


@EACH_VERSION
def test_what_cures_a_queue_whose_last_file_has_no_unit(version: jvm.Version, tmp_path: Path) -> None:
    """Queues from rebuild, installed without ``abort``: 5.3 and 5.4 refuse before, and start after."""
    store = fixture_store(f"plain-{version}")
    edit = next(one for one in EDITS if one.name == "queue file without a unit, all queues lag")
    root, cured = store.copy_to(tmp_path / "refused"), store.copy_to(tmp_path / "cured")
    for one in (root, cured):
        edit.apply(one, store.conf)
    prediction = predict_recovery(open_store(root, broker_conf=store.conf), RELEASES[version])
    assert prediction.loads is not RELEASES[version].needs_last_unit
    assert all("rmqtool rebuild" in (one.remedy or "") for one in prediction.refusals)
    rebuilt = tmp_path / "rebuilt"
    with rmqtool.open(cured, broker_conf=store.conf) as opened:
        opened.rebuild(rebuilt, engine="local")
    for name in ("consumequeue", "index"):
        shutil.rmtree(cured / name)
        shutil.copytree(rebuilt / name, cured / name)
    cases = [Case("as it was", root, store.conf), Case("cured", cured, store.conf)]
    outcomes = list(judged(version, cases))
    assert _report(iter(outcomes)) == ""
    assert [one.loads for _, one, _ in outcomes] == [not RELEASES[version].needs_last_unit, True]


def _flip_late(root: Path, at: int) -> None:
    """Spoil a byte of the last record but two."""
    log = open_store(root).commitlog
    offset = [one for one in walk(log.segments) if isinstance(one, Record)][-3].physical_offset + at
    segment = log.segment_at(offset)
    assert segment is not None
    with Path(str(segment.path)).open("r+b") as file:
        file.seek(offset - segment.start)
        byte = file.read(1)[0]
        file.seek(offset - segment.start)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("version", [version for version in RULES if version != "4.9.8"])
def test_a_start_that_verifies_the_property(version: jvm.Version, tmp_path: Path) -> None:
    """With ``forceVerifyPropCRC`` a record without ``__CRC32#``, or with a wrong one, ends the log."""
    cases = []
    for kind in ("propcrc", "plain"):
        store = fixture_store(f"{kind}-{version}")
        conf = tmp_path / f"{kind}.conf"
        conf.write_text(f"{store.conf.read_text('utf-8')}\nforceVerifyPropCRC=true\n", "utf-8")
        for unclean in (False, True):
            for name, at in (("as it is", None), ("a body", 100), ("a store time", 60), ("a body CRC", 8)):
                root = store.copy_to(tmp_path / f"{kind}-{name.replace(' ', '-')}-{unclean}")
                if at is not None:
                    _flip_late(root, at)
                if unclean:
                    (root / "abort").touch()
                cases.append(Case(f"{kind}, {name}, abort {unclean}", root, conf))
    outcomes = list(judged(version, cases))
    assert _report(iter(outcomes)) == ""
    lost = {case.name: sum(one.messages for one in prediction.lost) for case, prediction, _ in outcomes}
    # 5.3.4 and later join the checksum to the last property of a batch, and refuse that record themselves.
    assert (lost["propcrc, as it is, abort True"] == 0) is (version == "5.3.3")
    assert lost["propcrc, a body, abort True"] >= 3
    assert lost["plain, as it is, abort True"] > 0


@EACH_RULES
def test_a_start_with_duplication(version: jvm.Version, tmp_path: Path) -> None:
    """With ``duplicationEnable`` 5.x takes no record without ``DUP_INFO``, and 4.9 dispatches none."""
    cases = []
    for kind in ("plain", "crash"):
        store = fixture_store(f"{kind}-{version}")
        conf = tmp_path / f"{kind}.conf"
        conf.write_text(f"{store.conf.read_text('utf-8')}\nduplicationEnable=true\n", "utf-8")
        for unclean in (False, True):
            for name in ("as it is", "queues cut short", "marked", "marked and half confirmed"):
                root = store.copy_to(tmp_path / f"{kind}-{name.replace(' ', '-')}-{unclean}")
                if name != "as it is":
                    for queue in (root / "consumequeue").glob("*/*"):
                        _zero(max(queue.iterdir()))
                if name.startswith("marked"):
                    confirmed = (1 << 14) if name.endswith("confirmed") else 0
                    _mark_as_duplicates(root, confirmed)
                (root / "abort").unlink(missing_ok=True)
                if unclean:
                    (root / "abort").touch()
                cases.append(Case(f"{kind}, {name}, abort {unclean}", root, conf))
    outcomes = list(judged(version, cases))
    assert _report(iter(outcomes)) == ""
    predicted = {case.name: prediction for case, prediction, _ in outcomes}
    if version == "4.9.8":
        assert not predicted["plain, queues cut short, abort True"].starts
    else:
        assert predicted["plain, as it is, abort False"].lost


def _zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _mark_as_duplicates(root: Path, confirmed: int) -> None:
    """Give the records a property DUP_INFO in place of UNIQ_KEY, and the checkpoint a confirm offset."""
    for file in (root / "commitlog").iterdir():
        data = re.sub(b"UNIQ_KEY\x01(\\w{16})\\w", b"DUP_INFO\x01\\1_", file.read_bytes())
        file.write_bytes(data)
    with (root / "checkpoint").open("r+b") as checkpoint:
        checkpoint.seek(32)
        checkpoint.write(confirmed.to_bytes(8, "big"))
