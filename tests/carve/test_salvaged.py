"""What is carved of an image is a store that salvage takes: the way from a dead disk to one that starts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker.log_damage import LogCopy
from tests.broker.stores import LEDGERS
from tests.carve.planting import amid_noise
from tests.salvage.campaign import made_places, records_of
from tests.salvage.test_heads import copy_of, hidden_records
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


def test_from_an_image_to_a_store_that_starts(tmp_path: Path) -> None:
    source = fixture("plain-5.5.1")
    files = [path.read_bytes() for path in sorted((source / "commitlog").iterdir())]
    image = tmp_path / "image"
    rng = random.Random(11)
    parts = [data for number, data in enumerate(files) if number != 1]
    rng.shuffle(parts)
    image.write_bytes(amid_noise(rng, *parts))
    carved = rmqtool.carve_images(image, tmp_path / "carved", commitlog_size=len(files[0]))
    (log,) = carved.logs
    rmqtool.open(tmp_path / "carved" / log.directory, broker_conf=source / "broker.conf").salvage(
        tmp_path / "out"
    )
    found, made = records_of(tmp_path / "out" / "commitlog"), made_places(tmp_path / "out")
    given_back = {place: raw for place, raw in found.items() if place not in made}
    lost = range(len(files[0]), 2 * len(files[0]))
    truth = records_of(source / "commitlog")
    assert given_back == {place: raw for place, raw in truth.items() if place not in lost}
    assert made
    again = rmqtool.open(tmp_path / "out").verify()
    assert again.exit_status() == 0


@pytest.mark.parametrize("over", [64, None])
def test_a_frame_of_old_bytes_hides_no_record(over: int | None, tmp_path: Path) -> None:
    root = copy_of("plain-5.3.3", tmp_path)
    log = LogCopy(root)
    truth = {place for places in log.records for place in places}
    spoilt = set(hidden_records(log, own=False, over=over))
    files = sorted((root / "commitlog").iterdir())
    carved = rmqtool.carve_images(files, tmp_path / "carved", commitlog_size=log.segment_size)
    (one,) = carved.logs
    found = rmqtool.open(tmp_path / "carved" / one.directory).messages()
    assert {message.physical_offset for message in found} == truth - spoilt


@pytest.mark.parametrize("name", ["dledger-5.5.1", "dledgerconverted-4.9.8"])
def test_entries_of_dledger_become_a_plain_store(name: str, tmp_path: Path) -> None:
    """Those of a broker that was converted, too, whose older files are plain."""
    source = LEDGERS / name
    paths = [path for log in ("commitlog", "dledger-n0/data") for path in sorted((source / log).glob("*"))]
    files = [path.read_bytes() for path in paths]
    rng = random.Random(7)
    image = tmp_path / "image"
    image.write_bytes(amid_noise(rng, *rng.sample(files, len(files))))
    carved = rmqtool.carve_images(image, tmp_path / "carved", commitlog_size=len(files[0]))
    (log,) = carved.logs
    assert log.dledger
    assert {str(path.relative_to(tmp_path / "carved")) for path in (tmp_path / "carved").glob("*/**/0*")} == {
        str(path.relative_to(source)).replace("-n0", "-carved") for path in paths
    }
    opened = rmqtool.open(tmp_path / "carved", broker_conf=source / "broker.conf")
    assert opened.salvage(tmp_path / "out").records == log.records
    there = {message.uniq_key: message.queue_offset for message in rmqtool.open(source).messages()}
    made = {message.uniq_key: message.queue_offset for message in rmqtool.open(tmp_path / "out").messages()}
    assert there.items() >= made.items()
    assert len(made) >= len(there) - 2
    assert rmqtool.open(tmp_path / "out").verify().exit_status() == 0
