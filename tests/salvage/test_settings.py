"""What a salvaged store has of the broker's settings: as they were, or the best that is left of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.doctor.diagnose import diagnose
from rmqtool.errors import EnvironmentFailureError
from rmqtool.store import open_store
from rmqtool.store.broker_json import parse_broker_json
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.salvage import SalvageReport

OFFSETS = "consumerOffset.json"
NOW = '{"offsetTable":{"Orders@billing":{0:9},"TopicTest@readers":{0:21,1:3,2:0}}}'
BEFORE = '{"offsetTable":{"Orders@billing":{0:4}}}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.5.1"), tmp_path / "damaged")


def salvaged(root: Path, **copies: str) -> tuple[SalvageReport, Path]:
    """Salvage a store with these copies of the consumers' offsets: ``json``, ``bak``, ``tmp``."""
    (root / "config" / OFFSETS).unlink()
    for suffix, text in copies.items():
        (root / "config" / (OFFSETS if suffix == "json" else f"{OFFSETS}.{suffix}")).write_text(text)
    out = root.with_name("out")
    return rmqtool.open(root).salvage(out), out / "config" / OFFSETS


def test_settings_that_are_sound_are_copied_as_they_are(root: Path) -> None:
    report, written = salvaged(root, json=NOW)
    assert written.read_text() == NOW
    assert [(one.label, one.problem, one.mended) for one in report.config] == [
        ("config/consumerOffset.json", None, None),
        ("config/topics.json", None, None),
    ]


@pytest.mark.parametrize("now", ["", "\0" * 60, NOW[:60]], ids=["empty", "zeros", "cut"])
def test_the_doctors_first_choice_takes_the_place_of_what_is_damaged(now: str, root: Path) -> None:
    """A broker would take the backup, or begin anew: with the whole entries of both less comes again."""
    report, written = salvaged(root, json=now, bak=BEFORE)
    (told,) = (one for one in report.config if one.mended is not None)
    (found,) = (one for one in diagnose(open_store(root)) if not one.is_sound)
    assert told.label == found.file == "config/consumerOffset.json"
    assert told.mended is not None
    assert told.mended.startswith(f"{found.choices[0].name}: ")
    assert "; redelivers " in told.mended
    assert parse_broker_json(written.read_text()) == found.choices[0].document


def test_a_file_that_is_gone_comes_back_from_its_backup(root: Path) -> None:
    report, written = salvaged(root, bak=BEFORE)
    assert written.read_text() == BEFORE
    assert [one.label for one in report.config if one.mended] == ["config/consumerOffset.json"]


def test_nothing_left_is_said(root: Path) -> None:
    (root / "config" / "topics.json").unlink()
    report, written = salvaged(root, json="\0" * 60)
    (told,) = (one for one in report.config if one.label.endswith(OFFSETS))
    assert not written.exists()
    assert told.problem is not None
    assert "restore it from a backup" in told.problem


def test_a_log_that_is_not_read_is_not_left_out_of_a_new_store(root: Path) -> None:
    (root / "dledger-n0" / "data").mkdir(parents=True)
    (root / "dledger-n0" / "data" / f"{0:020d}").write_bytes(bytes(4096))
    with pytest.raises(EnvironmentFailureError, match=r"dledger-n0.*does not read.*copy it into a directory"):
        rmqtool.open(root).salvage(root.with_name("out"))
    assert not root.with_name("out").exists()


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_result_shows_the_release_of_its_store(version: str, tmp_path: Path) -> None:
    """Fields of the checkpoint that only newer brokers write would say that one of them was here."""
    store = rmqtool.open(fixture(f"plain-{version}"))
    store.salvage(tmp_path / "out")
    found = rmqtool.open(tmp_path / "out")
    releases = {one.name for one in found.files.settings.candidates}
    assert {version} <= releases
    assert found.files.settings.touched_by_5_4 == store.files.settings.touched_by_5_4
