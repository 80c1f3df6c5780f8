"""What is carved of an image is a store that salvage takes: the way from a dead disk to one that starts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker.log_damage import LogCopy
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
