"""Results in object storage: whole with their manifest, or nothing, whatever the network does."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import SourceFailureError
from rmqtool.io.object_store import ObjectWriter, WrittenObject
from rmqtool.store.lock import owner_of
from rmqtool.store.object_staging import MANIFEST_NAME, add_written, take_written
from tests.extra import library
from tests.io.s3_results import files_below, names_below, objects_below, results_behind_proxy, whole_result
from tests.io.s3_server import Proxy, Reply, put
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.io.s3_server import Request

library("moto")

pytestmark = pytest.mark.full

STORE = "s3://bucket/store"
SMALL = fixture("indexfull-4.9.8")


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with results_behind_proxy({"store": SMALL}) as one:
        yield one


@pytest.fixture
def out(proxy: Proxy, request: pytest.FixtureRequest) -> str:
    """Return where nothing is."""
    proxy.begin(lambda request, reply: reply)
    return f"s3://bucket/{hashlib.md5(request.node.name.encode()).hexdigest()}/out"


def _objects(proxy: Proxy, url: str) -> dict[str, bytes]:
    """Return what lies below a URL, by name."""
    proxy.begin(lambda request, reply: reply)
    return objects_below(url)


@pytest.mark.parametrize(
    "words",
    [
        "rebuild STORE --out OUT --engine local",
        "export STORE --out OUT --format ndjson",
    ],
)
def test_a_result_is_that_of_a_disk_and_has_a_manifest(
    words: str, proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, told, err = run_line(capsys, *words.replace("STORE", STORE).replace("OUT", out).split())
    assert status == 0, err
    assert out in told
    here = tmp_path / "out"
    assert run_line(capsys, *words.replace("STORE", str(SMALL)).replace("OUT", str(here)).split())[0] == 0
    proxy.begin(lambda request, reply: reply)
    found, expected = whole_result(out), files_below(here)
    reports = {name for name in found if name in {"rebuild.json", "_export.json"}}
    assert len(reports) == 1
    assert found.keys() == expected.keys()
    assert all(found[name] == expected[name] for name in found.keys() - reports)


def test_a_result_is_read_where_it_lies(proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")[0] == 0
    log = ("-p", f"storePathCommitLog={STORE}/commitlog")
    proxy.begin(lambda request, reply: reply)
    status, text, err = run_line(capsys, "verify", out, *log, "--format", "json")
    assert status == 0, err + text
    assert json.loads(text)["examined"]["units"] == 57
    words = ("--compare", "--engine", "local", "--format", "json")
    status, text, err = run_line(capsys, "rebuild", out, *log, *words)
    assert (status, json.loads(text)["differences"]) == (0, [])


def test_an_output_with_contents_is_refused(
    proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("rebuild", STORE, "--engine", "local", "-q", "--out")
    put(proxy.server_port, f"{out.removeprefix('s3://')}/x", b"1")
    status, _, err = run_line(capsys, *words, out)
    assert (status, err.splitlines()[-1]) == (
        4,
        f"error: {out}: exists and is not empty; choose another output or remove it",
    )
    assert _objects(proxy, out) == {"x": b"1"}
    assert run_line(capsys, *words, f"{STORE}/new")[0] == 4
    assert run_line(capsys, *words, "s3://bucket")[0] == 2
    status, _, err = run_line(capsys, *words, "s3://nowhere/out")
    assert (status, err.count("\n")) == (3, 1)


# Faults


def _is_result(request: Request) -> bool:
    return request.method in {"PUT", "POST"} and "/out/consumequeue/" in request.path


FAULTS: dict[str, Callable[[Reply], Reply]] = {
    "503": lambda reply: replace(reply, status=503, headers={}, body=b""),
    "cut": lambda reply: replace(reply, announced=10, body=b"", is_cut=True),
    "slow": lambda reply: replace(reply, pause_s=0.02),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_not_noticed(
    fault: str, proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.begin(lambda request, reply: FAULTS[fault](reply) if request.number == 0 else reply)
    status, _, err = run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")
    assert (status, err) == (0, "")
    assert MANIFEST_NAME in _objects(proxy, out)


@pytest.mark.parametrize("fault", ["503", "cut"])
def test_a_fault_that_stays_leaves_nothing(
    fault: str, proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.begin(lambda request, reply: FAULTS[fault](reply) if _is_result(request) else reply)
    status, told, err = run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")
    assert (status, told, err.count("\n")) == (3, "", 1)
    assert "cannot be written, tried 4 times" in err
    assert "check endpoint and network, and run this again" in err
    assert _objects(proxy, out) == {}
    assert names_below(out.rpartition("/")[0]) == set()


def test_denied_is_said_with_the_way_out(proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    proxy.begin(lambda request, reply: Reply(403) if request.method == "PUT" else reply)
    status, _, err = run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")
    assert (status, err.count("\n")) == (3, 1)
    assert "cannot be written" in err
    assert "rmqtool help objects" in err
    assert _objects(proxy, out) == {}


def test_what_arrives_otherwise_is_noticed(proxy: Proxy, out: str, tmp_path: Path) -> None:
    """The server says that it has another object than what was sent; the second attempt is right."""
    (tmp_path / "file").write_bytes(b"sent")

    def shorten(request: Request, reply: Reply) -> Reply:
        if request.method == "PUT" and request.number == 0:
            put(proxy.server_port, request.path.lstrip("/").partition("?")[0], b"stor")
        return reply

    proxy.begin(shorten)
    written = ObjectWriter("s3://bucket").put(f"{out}/x", tmp_path / "file")
    assert written.sha256 == hashlib.sha256(b"sent").hexdigest()
    assert len([one for one in proxy.requests if one.method == "PUT"]) == 2
    assert _objects(proxy, out) == {"x": b"sent"}


def test_an_object_that_is_gone_keeps_the_manifest_away(
    proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectWriter.sizes_below
    monkeypatch.setattr(
        ObjectWriter,
        "sizes_below",
        lambda self, path: {
            name: size for name, size in real(self, path).items() if "consumequeue/" not in name
        },
    )
    status, _, err = run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")
    monkeypatch.undo()
    assert status == 3
    assert "is missing or has changed since it was written" in err
    assert _objects(proxy, out) == {}


def test_large_files_are_sent_in_parts(proxy: Proxy, out: str, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 25
    (tmp_path / "file").write_bytes(data)
    written = ObjectWriter("s3://bucket").put(f"{out}/x", tmp_path / "file")
    assert written == (len(data), hashlib.sha256(data).hexdigest())
    assert any(one.method == "POST" and "uploads" in one.path for one in proxy.requests)
    assert _objects(proxy, out) == {"x": data}


def test_an_upload_in_parts_that_fails_is_no_object(proxy: Proxy, out: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(25 << 20))
    proxy.begin(lambda request, reply: FAULTS["503"](reply) if "partNumber=2" in request.path else reply)
    with pytest.raises(SourceFailureError, match="cannot be written, tried 4 times"):
        ObjectWriter("s3://bucket").put(f"{out}/x", tmp_path / "file")
    assert _objects(proxy, out) == {}


def test_the_bucket_takes_the_rule_of_the_manual(proxy: Proxy) -> None:
    boto3 = library("boto3")
    manual = files("rmqtool").joinpath("docs/objects.md").read_text("utf-8")
    rules = json.loads(manual.partition("```json\n")[2].partition("```")[0])
    proxy.begin(lambda request, reply: reply)
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    client.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration=rules)
    assert client.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"] == rules["Rules"]


@pytest.mark.parametrize("line", ["rebuild --engine local", "export --format ndjson", "salvage"])
def test_a_successful_run_leaves_no_empty_objects(
    line: str, proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.begin(lambda request, reply: reply)
    command, *more = line.split()
    run_line(capsys, command, STORE, "--out", out, *more, "-q")
    names = names_below(out)
    assert names == _objects(proxy, out).keys()
    assert MANIFEST_NAME in names


def test_what_a_killed_run_left_is_recognised(
    proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that died on this machine is cleared away; of another machine's nobody knows."""
    place = out.removeprefix("s3://")
    owner = owner_of(out) | {"schema": "rmqtool.run/1", "start": "0"}
    words = ("rebuild", STORE, "--out", out, "--engine", "local", "-q")
    put(proxy.server_port, f"{place}/consumequeue/old", b"1")
    put(proxy.server_port, f"{place}/rebuild.json", json.dumps(owner | {"host": "elsewhere"}).encode())
    status, _, err = run_line(capsys, *words)
    assert status == 4
    assert f"process {owner['pid']} on elsewhere is writing this output, or was killed and left 2" in err
    put(proxy.server_port, f"{place}/rebuild.json", json.dumps(owner).encode())
    assert run_line(capsys, *words)[0] == 0
    found = _objects(proxy, out)
    assert MANIFEST_NAME in found
    assert "consumequeue/old" not in found
    assert json.loads(found["rebuild.json"])["schema"] != owner["schema"]


def test_a_result_without_manifest_is_refused(
    proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed after its report, which comes last, cannot be known again."""
    words = ("rebuild", STORE, "--out", out, "--engine", "local", "-q")
    sent = len(proxy.requests)
    assert run_line(capsys, *words)[0] == 0
    puts = [one.path.partition("?")[0] for one in proxy.requests[sent:] if one.method == "PUT"]
    assert [path.rpartition("/")[2] for path in puts[-2:]] == ["rebuild.json", MANIFEST_NAME]
    ObjectWriter("s3://bucket").remove(f"{out}/{MANIFEST_NAME}")
    kept = _objects(proxy, out)
    status, _, err = run_line(capsys, *words)
    assert status == 4
    assert f"error: {out}: exists and is not empty; choose another output or remove it" in err
    assert _objects(proxy, out) == kept


def test_what_cannot_be_removed_is_told(
    proxy: Proxy, out: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(self: ObjectWriter, path: str) -> None:
        raise SourceFailureError(path, "cannot be removed")

    monkeypatch.setattr(ObjectWriter, "remove", remove)
    proxy.begin(lambda request, reply: FAULTS["503"](reply) if _is_result(request) else reply)
    status, _, err = run_line(capsys, "rebuild", STORE, "--out", out, "--engine", "local", "-q")
    assert status == 3
    assert f"and the written objects could not be removed: {out}: cannot be removed" in err


def test_notes_of_what_was_written_are_taken_once() -> None:
    add_written({"s3://b/x": WrittenObject(1, ""), "s3://c/y": WrittenObject(2, "")})
    assert take_written("s3://b/").keys() == {"s3://b/x"}
    assert take_written("s3://c/").keys() == {"s3://c/y"}
    assert take_written() == {}
