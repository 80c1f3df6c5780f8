"""Messages as files of ``--format replay`` and ``salvage --replay`` have them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.rows.replay import LEFT_OUT
from tests.cli.conftest import STORES
from tests.salvage.incidents import bit_rot
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

    Runner = Callable[..., Run]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["batchcq-5.4.0", "plain-4.9.8", "lmq-5.5.1", "ext-5.3.3"])
def test_a_line_is_the_message_without_what_the_broker_added(run: Runner, name: str, tmp_path: Path) -> None:
    path = tmp_path / "replay.ndjson"
    done = run("dump", STORES / name, "--format", "replay", "-o", path)
    words = ("--rows", "message", "--rows", "inner-message", "--body", "base64", "--decompress")
    rows = run("dump", STORES / name, "--format", "ndjson", *words).objects
    wanted = {(one["physicalOffset"], one.get("index")): one for one in rows if one["type"] != "damage"}
    found = lines(path)
    assert [one for one in map(defects_of, found) if one] == []
    assert len(found) + sum(left_out(done.err).values()) <= len(wanted)
    by_place = {(one["physicalOffset"], one["queueOffset"], one["topic"]): one for one in wanted.values()}
    for one in found:
        was = by_place[one["physicalOffset"], one["queueOffset"], one["topic"]]
        same = ("queueId", "tags", "keys", "uniqKey", "bornTimestamp", "storeTimestamp", "body")
        assert {key: one[key] for key in same} == {key: was[key] for key in same}
        assert one["properties"].items() <= was["properties"].items()
        assert not one["properties"].keys() & {"UNIQ_KEY", "TAGS", "KEYS", "WAIT", "CLUSTER", "__CRC32#"}


def defects_of(line: dict[str, Any]) -> list[str]:
    return defects("replay-line", line)


def left_out(said: str) -> dict[str, int]:
    counts = {}
    for reason, words in LEFT_OUT.items():
        for line in said.splitlines():
            if line.endswith(words):
                counts[reason] = int(line.split("left out: ")[1].split()[0].replace(",", ""))
    return counts


@pytest.mark.full
def test_a_salvage_writes_what_it_gave_back(run: Runner, tmp_path: Path) -> None:
    store = Path(shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store"))
    bit_rot(store)
    path = tmp_path / "replay.ndjson"
    done = run("salvage", store, "--out", tmp_path / "out", "--replay", path, "--format", "json")
    assert done.status == 5
    given = {one["physicalOffset"] for one in lines(path)}
    rows = run("dump", tmp_path / "out", "--rows", "message", "--format", "ndjson").objects
    true = {one["physicalOffset"] for one in rows if "RMQTOOL_LOST" not in one["properties"]}
    lost = {one["physicalOffset"] for one in rows} - true
    assert lost
    assert not given & lost
    assert given
    assert given <= true
    assert "tombstones of lost messages" in done.err
