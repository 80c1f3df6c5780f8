"""The broker's JSON files in ``config/``: strict JSON out of fastjson's own, damage as rows."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

STORE = next(path.parents[1] for path in sorted(STORES.rglob("consumerOffset.json")))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(STORE, tmp_path / "store")


def test_bare_integer_keys_become_strict_json(run: Callable[..., Run]) -> None:
    found = run("dump", STORE / "config" / "consumerOffset.json", "--format", "ndjson")
    assert (found.status, found.err) == (0, "")
    assert [(one["table"], one["name"], one["value"]) for one in found.objects] == [
        ("offsetTable", "Orders@billing", {"0": 9}),
        ("offsetTable", "TopicTest@readers", {"0": 21, "1": 3, "2": 0}),
    ]
    assert {one["file"] for one in found.objects} == {"config/consumerOffset.json"}


@pytest.mark.few(10)
def test_every_config_file_of_every_store(run: Callable[..., Run], any_store: Path) -> None:
    """What strict JSON was on disk comes out as it was."""
    document = json.loads((any_store / "config" / "topics.json").read_text())
    found = run("dump", any_store, "--type", "config", "--format", "ndjson")
    assert found.status == 0
    topics = {one["name"]: one["value"] for one in found.objects if one["table"] == "topicConfigTable"}
    assert topics == document["topicConfigTable"]
    by_directory = run("dump", any_store / "config", "--format", "ndjson")
    assert by_directory.out == found.out


@pytest.mark.parametrize("chosen", ["text", "json", "csv"])
def test_other_formats(run: Callable[..., Run], chosen: str) -> None:
    out = run("dump", STORE / "config" / "consumerOffset.json", "--format", chosen).out
    shown = '"{""0"": 9}"' if chosen == "csv" else '{"0": 9}'
    assert "Orders@billing" in out
    assert shown in out


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b'{"offsetTable":{1:', "cannot be decoded"),
        (b"\0" * 64, "cannot be decoded"),
        (b'{"a":{"b":NaN}}', "NaN is not a number of JSON"),
        (b'{"a":1e999}', "1e999 is not a number of JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "cannot be decoded"),
    ],
)
def test_damage_is_a_row_and_status_1(run: Callable[..., Run], copy: Path, data: bytes, reason: str) -> None:
    (copy / "config" / "consumerOffset.json").write_bytes(data)
    for words in ((copy / "config" / "consumerOffset.json",), (copy, "--type", "config")):
        found = run("dump", *words, "--format", "ndjson")
        assert found.status == 1
        (damage,) = (one for one in found.objects if one["type"] == "damage")
        assert (damage["code"], damage["file"]) == ("ST-CONFIG", "config/consumerOffset.json")
        assert reason in damage["message"]
    assert "ST-CONFIG (error)" in run("dump", *words).out


def test_the_backup_speaks_for_a_bad_file(run: Callable[..., Run], copy: Path) -> None:
    path = copy / "config" / "consumerOffset.json"
    shutil.copy(path, copy / "config" / "consumerOffset.json.bak")
    whole = run("dump", copy / "config", "--format", "ndjson").objects
    assert not [one for one in whole if one["file"].endswith(".bak")]
    path.write_text("{")
    found = run("dump", copy / "config", "--format", "ndjson")
    assert found.status == 1
    backup = [one for one in found.objects if one["file"].endswith(".bak")]
    assert [one["name"] for one in backup] == ["Orders@billing", "TopicTest@readers"]
    path.unlink()
    assert run("dump", copy / "config", "--format", "ndjson").status == 0


def test_a_config_file_anywhere(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "subscriptionGroup.json"
    path.write_text('{"dataVersion": 3, "subscriptionGroupTable": {"g\x7f": {"retryMaxTimes": 16}}}')
    found = run("dump", path, "--format", "ndjson")
    assert [(one["table"], one["name"], one["value"]) for one in found.objects] == [
        (None, "dataVersion", 3),
        ("subscriptionGroupTable", "g\x7f", {"retryMaxTimes": 16}),
    ]
    assert "\x7f" not in found.out + run("dump", path).out


@pytest.mark.parametrize("command", ["verify", "info", "query"])
def test_other_commands_say_what_it_is(run: Callable[..., Run], command: str) -> None:
    words = ("--offset", "0") if command == "query" else ()
    found = run(command, STORE / "config" / "topics.json", *words)
    assert found.status == 3
    assert "holds settings of the broker" in found.err


def test_what_says_nothing_about_it(run: Callable[..., Run]) -> None:
    assert run("dump", STORE / "config", "--topic", "T").status == 2
    assert run("dump", "--layout", "--type", "config").status == 2
