"""``rmqtool carve``: from nameless bytes to a store, told, digested, complete or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.carve import writing
from rmqtool.errors import EnvironmentFailureError
from tests.carve.planting import Planted, amid_noise, planted
from tests.cli.conftest import STORES
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

FILE = 1 << 14


@pytest.fixture(scope="module")
def log() -> Planted:
    return planted(random.Random(1), 100, file_size=FILE)


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["plain-5.5.1", "plain-4.9.8", "crash-4.9.8"])
def test_files_of_a_broker_without_names_are_the_log_again(run: Runner, name: str, tmp_path: Path) -> None:
    """Every record as it was; what the broker left after the log's end is no part of it."""
    files = sorted((STORES / name / "commitlog").iterdir())
    given = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    shuffled = random.Random(1).sample(files, len(files))
    done = run("carve", *shuffled, "--out", tmp_path / "out")
    assert done.status == 0
    assert "records of 1 log found." in done.out
    before = run("dump", STORES / name / "commitlog", "--format", "ndjson", "--body", "hex").objects
    after = run("dump", tmp_path / "out/commitlog", "--format", "ndjson", "--body", "hex").objects
    assert [one for one in after if one["type"] == "message"] == [
        one for one in before if one["type"] == "message"
    ]
    assert given == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_tar_of_a_store_with_a_hole_and_another_broker_s_log(
    run: Runner, log: Planted, tmp_path: Path
) -> None:
    other = planted(random.Random(2), 30, file_size=FILE, broker=2)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for number, data in enumerate([*log.files.values(), *other.files.values()]):
            member = tarfile.TarInfo(f"nothing/{number}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    torn = [*log.records][7]
    image = bytearray(packed.getvalue())
    image[image.find(log.records[torn]) + 120] ^= 0x10
    (tmp_path / "it.tar").write_bytes(image)
    out = tmp_path / "out"
    done = run("carve", tmp_path / "it.tar", "--out", out, "--format", "json", "--jobs", "2")
    assert done.status == 5
    told = done.document
    assert [(one["directory"], one["records"], one["holes"]) for one in told["logs"]] == [
        (".", 99, 1),
        ("log-2", 30, 0),
    ]
    assert told["logs"][0]["missingBytes"] == len(log.records[torn])
    assert told["loose"] == {"body": 1}
    for name, one in ((".", log), ("log-2", other)):
        for start, data in one.files.items():
            expected = bytearray(data)
            if name == "." and start <= torn < start + FILE:
                expected[torn - start : torn - start + len(log.records[torn])] = bytes(len(log.records[torn]))
            assert (out / name / "commitlog" / f"{start:020d}").read_bytes() == bytes(expected)
    (line,) = map(json.loads, (out / "lost+found/records.ndjson").read_text().splitlines())
    kept = (out / "lost+found/records.bin").read_bytes()
    assert (line["cause"], line["physicalOffset"], line["keptAt"], line["storeHost"]) == (
        "body", torn, 0, "10.0.0.1:10911",
    )  # fmt: skip
    assert kept == bytes(image[line["position"] : line["position"] + line["keptBytes"]])
    files = _tree(out)
    sums = [one.split("  ") for one in files.pop("carve/SHA256SUMS").decode().splitlines()]
    listed = {name: digest for digest, name in sums}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert json.loads(files["carve/carve.json"]) | {"exitStatus": 5} == told
    used = [part.split() for part in files["carve/image-1.map"].decode().splitlines()[4:] if part[0] != "#"]
    assert {status for _, _, status in used} == {"+", "/"}
    assert sum(int(size, 0) for _, size, _ in used) == len(image)


@pytest.mark.parametrize("byte", [2, 6, 7])
def test_a_record_whose_place_its_neighbours_contradict_is_kept_with_the_reason(
    run: Runner, log: Planted, byte: int, tmp_path: Path
) -> None:
    """One flipped bit of PHYSICALOFFSET: its place stays empty, nothing moves, and its bytes are there."""
    place = [*log.records][11]
    start = max(start for start in log.files if start <= place)
    files = {at: bytearray(data) for at, data in log.files.items()}
    files[start][place - start + 28 + byte] ^= 2
    raw = bytes(files[start][place - start :][: len(log.records[place])])
    image = tmp_path / "image"
    image.write_bytes(amid_noise(random.Random(2), *map(bytes, files.values())))
    done = run("carve", image, "--out", tmp_path / "out")
    assert done.status == 5
    assert "1 the records around them contradict their offset" in done.out
    made = {int(path.name): path.read_bytes() for path in (tmp_path / "out/commitlog").iterdir()}
    assert sorted(made) == sorted(log.files)
    due = {at: bytearray(data) for at, data in log.files.items()}
    due[start][place - start : place - start + len(raw)] = bytes(len(raw))
    assert all(bytes(due[at]).rstrip(b"\0") == made[at].rstrip(b"\0") for at in made)
    told = json.loads((tmp_path / "out/lost+found/records.ndjson").read_text())
    kept = (tmp_path / "out/lost+found/records.bin").read_bytes()[told["keptAt"] :][: told["keptBytes"]]
    assert (told["cause"], kept) == ("offset", raw)


def test_a_look_writes_nothing_and_the_library_says_the_same(
    run: Runner, log: Planted, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    image.write_bytes(amid_noise(random.Random(3), *log.files.values()))
    told = run("carve", image, "--dry-run", "--format", "json").document
    assert [one.name for one in tmp_path.iterdir()] == ["image"]
    report = rmqtool.carve_images(image)
    assert (report.records, report.out, report.is_whole) == (100, None, True)
    assert rmqtool.json_value(report) | {"seconds": None} == {
        name: value for name, value in told.items() if name not in {"exitStatus"}
    } | {"seconds": None}
    text = run("carve", image, "--dry-run").out
    assert "store host 10.0.0.1:10911" in text
    assert f"files of {FILE:,} bytes (inferred)" in text


def test_nothing_found_is_status_1_and_no_result(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(random.Random(4).randbytes(100_000))
    done = run("carve", tmp_path / "image", "--out", tmp_path / "out")
    assert (done.status, done.out.splitlines()[0]) == (1, "No record was found.")
    assert [one.name for one in tmp_path.iterdir()] == ["image"]


def test_a_size_is_given(run: Runner, log: Planted, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"".join(log.files.values()))
    words = ("-p", f"mappedFileSizeCommitLog={2 * FILE}")
    told = run("carve", image, "--dry-run", "--format", "json", *words).document["logs"][0]
    assert (told["fileSize"], told["fileSizeOrigin"]) == (2 * FILE, "given")
    assert told["fileSizeDoubts"] > 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["IMAGE"], 2, "give --out DIR"),
        (["IMAGE", "--dry-run", "--out", "DIR"], 2, "give --out DIR"),
        (["IMAGE", "--dry-run", "-p", "mappedFileSizeCommitLog=0"], 2, "mappedFileSizeCommitLog"),
        (["FIFO", "--dry-run"], 3, "is a FIFO; give an image"),
        (["/dev/null", "--dry-run"], 3, "is a character device; give an image"),
        (["ABSENT", "--dry-run"], 3, "No such file or directory"),
        (["IMAGE", "--out", "IMAGE"], 4, "lies inside the evidence"),
        (["STORE/commitlog/00000000000000000000", "--out", "STORE/new"], 4, "lies inside the evidence"),
    ],
)
def test_what_makes_no_sense_is_said(
    run: Runner, tmp_path: Path, words: list[str], status: int, said: str
) -> None:
    (tmp_path / "IMAGE").write_bytes(record(0) * 3)
    os.mkfifo(tmp_path / "FIFO")
    store = tmp_path / "STORE/commitlog"
    store.mkdir(parents=True)
    (store / "00000000000000000000").write_bytes(record(0))
    plain = {"DIR", "--out", "--dry-run", "-p", "mappedFileSizeCommitLog=0"}
    before = _tree(tmp_path / "STORE")
    done = run("carve", *(one if one in plain else tmp_path / one for one in words))
    assert done.status == status
    assert said in done.err
    assert _tree(tmp_path / "STORE") == before


def test_a_record_that_changes_while_it_is_copied_ends_it(
    run: Runner, log: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "image"
    data = b"".join(log.files.values())
    image.write_bytes(data)
    asked = writing.chunks

    def meanwhile(rows: Any, most_bytes: int) -> Any:  # noqa: ANN401 - arrays
        image.write_bytes(data[:300] + b"?" + data[301:])
        return asked(rows, most_bytes)

    monkeypatch.setattr(writing, "chunks", meanwhile)
    done = run("carve", image, "--out", tmp_path / "out", "--jobs", "1")
    assert done.status == 3
    assert "has changed since it was found" in done.err
    assert [one.name for one in tmp_path.iterdir()] == ["image"]


def test_records_longer_than_a_window_or_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are proven and copied in pieces."""
    monkeypatch.setattr(writing, "CHUNK_BYTES", 1000)
    data = b""
    for body in (b"a" * 700, random.Random(5).randbytes(9 << 20), b"last"):
        data += record(len(data), body=body)
    (tmp_path / "image").write_bytes(b"noise" + data + b"noise")
    report = rmqtool.carve_images(tmp_path / "image", tmp_path / "out", commitlog_size=10 << 20)
    assert (report.records, report.loose, report.is_whole) == (3, {}, True)
    written = (tmp_path / "out/commitlog/00000000000000000000").read_bytes()
    assert written == data.ljust(10 << 20, b"\0")


def test_a_full_disk_leaves_nothing(tmp_path: Path, log: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "image").write_bytes(b"".join(log.files.values()))

    def full(*_: object) -> None:
        raise EnvironmentFailureError("cannot be written: No space left on device")

    monkeypatch.setattr("rmqtool.store.staging.StagedFile.write_at", full)
    with pytest.raises(EnvironmentFailureError, match="No space left"):
        rmqtool.carve_images(tmp_path / "image", tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == ["image"]
