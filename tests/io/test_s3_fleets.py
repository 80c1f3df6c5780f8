"""Results of many stores in object storage: each whole with a manifest of its own, or not there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli.fleet import MakingQuestion
from rmqtool.io.object_store import ObjectWriter
from rmqtool.store.lock import owner_of
from rmqtool.store.object_staging import MANIFEST_NAME
from tests.extra import library
from tests.io.s3_results import files_below, names_below, objects_below, results_behind_proxy, whole_result
from tests.io.s3_server import put
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.io.s3_server import Proxy, Reply, Request

library("moto")

pytestmark = pytest.mark.full

SMALL = fixture("indexfull-4.9.8")
STORES = "s3://bucket/brokers/*/store"
COMMANDS = {
    "rebuild": ("rebuild STORES --engine local --resume --out OUT", "", "rebuild.json"),
    "rebuild-index": ("rebuild-index STORES --engine local --resume --out OUT", "", "rebuild.json"),
    "export": ("export STORES --format ndjson --resume --out OUT", "store=", "_export.json"),
}
"""A command line, what folders begin with, and the report."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with results_behind_proxy({"brokers/a/store": SMALL, "brokers/b/store": SMALL}) as one:
        yield one


@pytest.mark.parametrize("command", COMMANDS)
def test_each_result_is_whole_by_itself_and_is_not_made_twice(
    command: str, proxy: Proxy, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line, prefix, report = COMMANDS[command]
    out = f"s3://bucket/made-{command}/out"
    words = line.replace("STORES", STORES).replace("OUT", out).split()
    assert run_line(capsys, *words)[0] == 0
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "store").symlink_to(SMALL)
    here = line.replace("STORES", f"{tmp_path}/*/store").replace("OUT", f"{tmp_path}/out").split()
    assert run_line(capsys, *here)[0] == 0
    a, b = (f"{out}/{prefix}{name}-store" for name in ("a", "b"))
    expected = files_below(tmp_path / "out" / f"{prefix}a-store")
    for one in (a, b):
        found = whole_result(one)
        assert found.keys() == expected.keys()
        assert all(found[name] == expected[name] for name in expected.keys() - {report})
        assert names_below(one) == {*expected, MANIFEST_NAME}

    # one that was killed amid the second store: no manifest, and who was at work is dead
    key = b.removeprefix("s3://")
    ObjectWriter("s3://bucket").remove(f"{b}/{MANIFEST_NAME}")
    killed = owner_of(b) | {"schema": "rmqtool.run/1", "start": "0"}
    put(proxy.server_port, f"{key}/{report}", json.dumps(killed).encode())
    proxy.begin(lambda request, reply: reply)
    status, told, err = run_line(capsys, *words)
    assert (status, told.count("(by an earlier run)")) == (0, 1), err
    written = [one.path for one in proxy.requests if one.method in {"PUT", "POST", "DELETE"}]
    assert written
    assert not any(f"{prefix}a-store" in path for path in written)
    assert whole_result(b).keys() == expected.keys()
    assert run_line(capsys, *words)[1].count("(by an earlier run)") == 2


def test_what_an_earlier_run_made_must_be_there_and_of_the_same_request(
    proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = "s3://bucket/changed/out"
    words = ("rebuild", STORES, "--engine", "local", "--out", out, "--format", "json")
    part = ("--topic", "Roll*")
    assert run_line(capsys, *words, *part)[0] == 0
    status, told, err = run_line(capsys, *words, *part)
    assert (status, told) == (4, "")
    assert err.endswith("choose another output, or add --resume\n")
    stores = _stores(run_line(capsys, *words, "--resume")[1])
    assert [one["exitStatus"] for one in stores] == [4, 4]
    assert stores[0]["failure"].startswith(
        f'{out}/a-store: an earlier run made it with asked.topics ["Roll*"], now it is []'
    )
    ObjectWriter("s3://bucket").remove(f"{out}/a-store/consumequeue")
    put(proxy.server_port, f"{out.removeprefix('s3://')}/b-store/rebuild.json", b"{}")
    kept = objects_below(out)
    stores = _stores(run_line(capsys, *words, *part, "--resume")[1])
    assert [one["exitStatus"] for one in stores] == [4, 4]
    assert "/a-store/consumequeue/" in stores[0]["failure"]
    assert f"/b-store/rebuild.json: does not match {MANIFEST_NAME} beside it" in stores[1]["failure"]
    assert objects_below(out) == kept


@pytest.mark.parametrize("place", ["", "/made"])
def test_nothing_is_made_where_the_stores_lie(
    place: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    before = objects_below("s3://bucket/brokers")
    out = f"s3://bucket/brokers/a/store{place}"
    for more in ((), ("--resume",)):
        words = ("rebuild", STORES, "--engine", "local", "--out", out, *more)
        assert run_line(capsys, *words)[0] == 4
    assert objects_below("s3://bucket/brokers") == before


def test_a_store_that_fails_leaves_nothing_and_stops_nothing(
    proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = "s3://bucket/partly/out"
    words = ("rebuild", STORES, "--engine", "local", "--out", out, "--format", "json", "--resume")

    def fail(request: Request, reply: Reply) -> Reply:
        is_result = request.method == "PUT" and "/out/a-store/consumequeue/" in request.path
        return replace(reply, status=503, headers={}, body=b"") if is_result else reply

    proxy.begin(fail)
    status, told, _ = run_line(capsys, *words)
    assert (status, [one["exitStatus"] for one in _stores(told)]) == (3, [3, 0])
    proxy.begin(lambda request, reply: reply)
    assert objects_below(f"{out}/a-store") == {}
    assert whole_result(f"{out}/b-store")
    assert run_line(capsys, *words)[0] == 0


def test_an_interrupt_looks_what_is_there(
    proxy: Proxy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, left = "s3://bucket/interrupted/out", [0]
    words = ("rebuild", STORES, "--engine", "local", "--out", out, "--resume")
    asked: Any = MakingQuestion.__call__

    def interrupted(self: Any, *arguments: Any) -> Any:  # noqa: ANN401 - passed on
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return asked(self, *arguments)

    monkeypatch.setattr(MakingQuestion, "__call__", interrupted)
    assert "error: interrupted; nothing was written\n" in run_line(capsys, *words).err
    left[0] = 1
    told = f"error: interrupted; complete results are in {out}; --resume continues\n"
    assert told in run_line(capsys, *words).err


def _stores(text: str) -> list[dict[str, Any]]:
    stores: list[dict[str, Any]] = json.loads(text)["stores"]
    return stores
