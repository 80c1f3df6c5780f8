"""``diff`` on real stores: a store against itself, against a rebuilt one, and against edited copies."""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.store import open_store
from tests.damage.cases import one_of_each_code
from tests.damage.edits import edited
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.damage.cases import Case
    from tests.runs import Run

STORES = Path(__file__).parents[2] / "fixtures" / "stores"
PAIRS = sorted(path.name.removesuffix("-4.9.8") for path in STORES.glob("*-4.9.8"))
DERIVED = ("consumequeue", "index", "consumequeue_ext", "batchconsumequeue")


def differences(found: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.document["rows"]
    return rows


@pytest.mark.few(10)
def test_a_store_does_not_differ_from_itself(run: Callable[..., Run], any_store: Path) -> None:
    found = run("diff", any_store, any_store, "--format", "json")
    assert (found.status, differences(found)) == (0, [])
    assert found.document["compared"]["bytes"] > 0
    assert found.document["compared"]["records"] > 0


@pytest.mark.few(8)
def test_a_store_does_not_differ_from_what_the_broker_rebuilt(
    run: Callable[..., Run], any_store: Path
) -> None:
    """The broker's own rebuild; of bit maps the log knows nothing, and a rebuild is one broker's making."""
    reference = any_store / "reference"
    if not reference.is_dir():
        return
    found = run("diff", any_store, reference, "--format", "json", "-c", any_store / "broker.conf")
    several_brokers = "[[brokers]]" in (any_store / "recipe.toml").read_text()
    assert found.status == (several_brokers or any_store.name.startswith("extbitmap")), found.document
    assert not several_brokers or {row["structure"] for row in differences(found)} == {"index"}
    assert found.document["compared"]["units"] > 0


@pytest.mark.parametrize(
    "name", ["plain-4.9.8", "ext-5.3.3", "batchcq-5.3.3", "lmq-5.3.3", "expiredhead-4.9.8"]
)
def test_a_rebuilt_store_says_the_same(run: Callable[..., Run], tmp_path: Path, name: str) -> None:
    """Our rebuild, whose index files have other names; what it lacks by nature is a note."""
    store, out = STORES / name, tmp_path / "out"
    conf = ("-c", store / "broker.conf")
    assert run("rebuild", store, "--out", out, "--engine", "local", *conf).status == 0
    found = run("diff", store, out, "--format", "json", *conf)
    assert (found.status, differences(found)) == (0, [])
    assert "only A has a commitlog; it is not compared" in found.document["notes"]
    assert found.document["compared"]["queues"] > 0


@pytest.mark.few(6)
@pytest.mark.parametrize("name", PAIRS)
def test_stores_of_two_brokers_differ_both_ways(run: Callable[..., Run], name: str) -> None:
    """Every message was stored at another time: the log differs from its first record on, and is sound."""
    a, b = STORES / f"{name}-4.9.8", STORES / f"{name}-5.3.3"
    every = ("--max-differences", 100_000, "--format", "json")
    there, back = (run("diff", one, other, *every) for one, other in ((a, b), (b, a)))
    assert (there.status, back.status) == (1, 1)
    assert there.document["differences"] == back.document["differences"]
    assert there.document["differences"]["commitlog"] > 0
    swap = {"only-a": "only-b", "only-b": "only-a"}
    changes = sorted(
        (row["structure"], swap.get(row["change"], row["change"]), row["count"])
        for row in back.document["rows"]
    )
    if name != "noindex":
        assert changes == sorted(
            (row["structure"], row["change"], row["count"]) for row in there.document["rows"]
        )


EDITS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("body", [{"record": 3, "field": "body", "flip": 1}], {"structure": "commitlog", "damaged": "b"}),
    ("magic", [{"record": 3, "field": "magic", "set": 7}], {"structure": "commitlog", "damaged": "b"}),
    (
        "flag",
        [{"record": 3, "field": "flag", "set": 7}],
        {"structure": "commitlog", "damaged": None, "a": {"flag": 0}, "b": {"flag": 7}},
    ),
    (
        "offset",
        [{"queue": "TopicTest/1", "unit": 2, "field": "physicalOffset", "add": 1}],
        {"structure": "consumequeue", "queueOffset": 2, "count": 1, "change": "changed"},
    ),
    (
        "zeros",
        [{"queue": "TopicTest/1", "unit": 2, "zero": 0}],
        {"structure": "consumequeue", "queueOffset": 2, "count": 1, "change": "only-a"},
    ),
    (
        "tags",
        [{"queue": "TopicTest/1", "unit": 11, "field": "tagsCode", "set": 5}],
        {"structure": "consumequeue", "queueOffset": 11, "change": "changed"},
    ),
    (
        "hash",
        [{"index": 2, "item": 18, "field": "keyHash", "add": 1}],
        {"structure": "index", "count": 1, "change": "changed", "item": 95},
    ),
    (
        "time",
        [{"index": 2, "item": 4, "field": "timeDiff", "add": 9}],
        {"structure": "index", "count": 1, "change": "changed", "item": 81},
    ),
    (
        "chain",
        [{"index": 2, "item": 4, "field": "previous", "set": 3}],
        {"structure": "index", "count": 1, "b": {"item": 3}},
    ),
    ("slot", [{"index": 2, "slot": 4, "set": 3}], {"structure": "index", "count": 1, "b": {"item": 3}}),
    (
        "header",
        [{"index": 2, "field": "endPhyOffset", "add": 1}],
        {"structure": "index", "count": 1, "change": "changed"},
    ),
    (
        "checkpoint",
        [{"checkpoint": "physicMsgTimestamp", "add": 1}],
        {"structure": "checkpoint", "normal": True},
    ),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("edits", "expected"), [case[1:] for case in EDITS], ids=[case[0] for case in EDITS])
def test_one_edit_is_one_difference_at_its_place(
    run: Callable[..., Run],
    plain: Path,
    tmp_path: Path,
    edits: list[dict[str, Any]],
    expected: dict[str, Any],
) -> None:
    copy = edited(plain, tmp_path / "copy", edits)
    found = run("diff", plain, copy, "--format", "json")
    (row,) = differences(found)
    assert expected.items() <= row.items()
    assert found.status == (5 if expected.get("damaged") else 1)
    assert run("diff", plain, copy, "--fail-on", "never").status == 0
    assert run("diff", plain, copy, "--replica").status == (0 if row["normal"] else found.status)
    back = run("diff", copy, plain, "--format", "json")
    assert (back.status, len(differences(back))) == (found.status, 1)
    assert [row["a"], row["b"]] == [differences(back)[0]["b"], differences(back)[0]["a"]]


@pytest.mark.parametrize(
    ("name", "edit", "structure"),
    [
        ("plain-5.3.3", {"index": 2, "item": 18, "field": "physicalOffset", "add": 1 << 40}, "index"),
        (
            "batchcq-5.3.3",
            {"batch": "Streams/0", "unit": 3, "field": "msgBaseOffset", "add": 1},
            "batchconsumequeue",
        ),
    ],
    ids=["item", "batch unit"],
)
def test_an_entry_in_another_place_is_one_that_each_has_alone(
    run: Callable[..., Run], tmp_path: Path, name: str, edit: dict[str, Any], structure: str
) -> None:
    copy = edited(STORES / name, tmp_path / "copy", [edit])
    found = run("diff", STORES / name, copy, "--format", "json")
    rows = sorted((row["structure"], row["change"], row["count"]) for row in differences(found))
    assert (rows, found.status) == ([(structure, "only-a", 1), (structure, "only-b", 1)], 1)


def _case_id(case: Case) -> str:
    return f"{case.code}-{case.name}"


@pytest.mark.few(8)
@pytest.mark.parametrize("case", one_of_each_code(), ids=_case_id)
def test_every_damage_is_compared_with_the_sound_store(
    run: Callable[..., Run], tmp_path: Path, case: Case
) -> None:
    """Whatever was done, both ways agree, and an error in a log that is compared is one."""
    store = STORES / case.store
    copy = edited(store, tmp_path / "copy", case.edits)
    words = ("--format", "json", "-c", store / "broker.conf")
    there, back = run("diff", store, copy, *words), run("diff", copy, store, *words)
    assert there.status == back.status
    assert there.status in {0, 1, 3, 5}
    if there.status != 3:
        assert there.document["differences"] == back.document["differences"]
        assert there.document["normalDifferences"] == back.document["normalDifferences"]


def test_retention_and_lag_are_named_and_are_no_damage(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    """B has deleted its first file, A lacks the last one; what follows from that is counted apart."""
    a, b = (Path(shutil.copytree(plain, tmp_path / name)) for name in "ab")
    for side in (a, b):
        shutil.rmtree(side / "index")  # it would prove that A was longer once
    (b / "commitlog" / f"{0:020d}").unlink()
    (a / "commitlog" / f"{49152:020d}").unlink()
    for queue in open_store(a).queues():
        for segment in queue.files:
            data = Path(str(segment.path)).read_bytes()
            units = [data[at : at + 20] for at in range(0, len(data), 20)]
            kept = [unit if int.from_bytes(unit[:8], "big") < 49152 else bytes(20) for unit in units]
            Path(str(segment.path)).write_bytes(b"".join(kept))
    found = run("diff", a, b, "--format", "json")
    assert [row["change"] for row in differences(found) if row["structure"] == "commitlog"] == [
        "starts",
        "ends",
    ]
    assert "consumequeue" not in found.document["differences"]
    assert found.document["beyondOtherLog"]["consumequeue"] > 0
    assert found.status == 1
    assert run("diff", a / "commitlog", b / "commitlog", "--replica").status == 0


def test_files_of_other_sizes_hold_the_same_units(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    """A queue in one long file, zeros after it."""
    source, target = plain / "consumequeue" / "TopicTest" / "0", tmp_path / "queue" / "0"
    target.mkdir(parents=True)
    joined = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
    (target / f"{0:020d}").write_bytes(joined + bytes(4000))
    assert run("diff", source, target).status == 0


def test_parts_are_compared_and_unlike_parts_are_refused(run: Callable[..., Run], plain: Path) -> None:
    queue = plain / "consumequeue" / "TopicTest"
    assert run("diff", queue / "0", queue / "0").status == 0
    assert run("diff", queue / "0", queue / "1").status == 1
    assert run("diff", plain / "index", plain / "index").status == 0
    assert run("diff", plain / "index", plain / "commitlog").status == 2
    assert run("diff", plain, plain / "nothing").status == 3
    first = plain / "commitlog" / f"{0:020d}"
    assert run("diff", first, first).status == 0


def test_a_part_that_a_store_lacks_is_a_difference(
    run: Callable[..., Run], plain: Path, plain_copy: Path
) -> None:
    shutil.rmtree(plain_copy / "index")
    shutil.rmtree(plain_copy / "consumequeue" / "Orders")
    found = run("diff", plain, plain_copy, "--format", "json")
    assert found.status == 1
    rows = [(row["structure"], row["change"], row["topic"], row["queueId"]) for row in differences(found)]
    orders = [("consumequeue", "only-a", "Orders", number) for number in (0, 1, 7)]
    assert rows == [*orders, ("index", "only-a", None, None)]


def test_an_absurd_gap_does_not_stop_a_comparison(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "commitlog" / f"{9 * 10**18:020d}").write_bytes(b"\1" * 8192)
    found = run("diff", plain_copy, plain_copy)
    assert found.status == 5
    assert "between commitlog/00000000000000049152 and commitlog/09000000000000000000" in found.out


def test_the_limit_counts_the_rest(run: Callable[..., Run]) -> None:
    a, b = STORES / "plain-4.9.8", STORES / "plain-5.3.3"
    found = run("diff", a, b, "--max-differences", 1, "--format", "ndjson")
    *rows, summary = found.objects
    for name, total in summary["differences"].items():
        told = [row for row in rows if row["structure"] == name and not row["normal"]]
        assert sum(row["count"] for row in told) == total
    assert run("diff", a, b, "--max-differences", 0).status == 2


def test_text_and_csv(run: Callable[..., Run]) -> None:
    a, b = STORES / "plain-4.9.8", STORES / "plain-5.3.3"
    out = run("diff", a, b).out
    assert "as a slave that lags" in out
    assert "differences (" in out.splitlines()[0]
    assert not any(word.isdigit() and len(word) == 13 for word in out.replace(",", " ").split())
    table = list(csv.DictReader(io.StringIO(run("diff", a, b, "--format", "csv").out)))
    assert {"structure", "change", "queueOffset", "a", "b"} <= set(table[0])


@pytest.mark.parametrize(
    ("name", "edit", "expected"),
    [
        (
            "batchcq-5.3.3",
            {"batch": "Streams/0", "unit": 3, "field": "tagsCode", "add": 1},
            {"structure": "batchconsumequeue", "change": "changed", "queueId": 0},
        ),
        (
            "ext-5.3.3",
            {"file": f"consumequeue_ext/Extended/0/{0:020d}", "at": 22, "plus": 2, "flip": 1},
            {"structure": "consumequeue", "change": "changed", "queueOffset": 1},
        ),
    ],
    ids=["tags of a batch", "ext unit"],
)
def test_batches_and_ext_units_are_placed(
    run: Callable[..., Run], tmp_path: Path, name: str, edit: dict[str, Any], expected: dict[str, Any]
) -> None:
    """An ext unit is shown at the queue offset of the unit that names it."""
    copy = edited(STORES / name, tmp_path / "copy", [edit])
    found = run("diff", STORES / name, copy, "--format", "json")
    (row,) = differences(found)
    assert expected.items() <= row.items()
    assert (row["count"], found.status) == (1, 1)
    alone = copy.relative_to(tmp_path / "copy") / "consumequeue_ext"
    if name.startswith("ext"):
        refused = run("diff", STORES / name / alone, copy / alone)
        assert (refused.status, "through the units that name them" in refused.err) == (2, True)


def test_what_the_disk_does_not_deliver_is_damage_of_the_log(
    run: Callable[..., Run], plain: Path, plain_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, queue = f"commitlog/{8192:020d}", f"consumequeue/TopicTest/0/{0:020d}"
    preadv = os.preadv

    def failing(descriptor: int, buffers: Any, position: int) -> int:  # noqa: ANN401 - as os.preadv
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith((f"store/{log}", f"store/{queue}")):
            raise OSError(errno.EIO, "Input/output error")
        return preadv(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", failing)
    found = run("diff", plain, plain_copy, "--format", "json")
    assert found.status == 5
    notes = " ".join(found.document["notes"])
    assert log in notes
    assert queue in notes


def test_a_side_that_lost_messages_is_told_who_can_heal_it(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    """A log that ends early is no slave that lags where its own queues list what it lacks."""
    short = Path(shutil.copytree(plain, tmp_path / "short"))
    (short / "commitlog" / f"{49152:020d}").unlink()
    found = run("diff", plain, short, "--replica", "--format", "json")
    assert found.document["healing"] == [{"side": "b", "lost": 11, "held": 11, "damaged": 0, "before": 0}]
    assert found.status == 5
    told = run("diff", short, plain)
    assert told.out.startswith(
        "11 messages are lost from the log of A, B has 11 of them\nNo difference, 1 as running replicas have"
    )
    assert f"{plain} can heal {short}: rmqtool salvage {short} {plain} --out DIR" in told.err


def test_a_side_with_a_damaged_record_is_told_who_can_heal_it(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    other = edited(plain, tmp_path / "other", [{"record": 20, "field": "body", "flip": 1}])
    told = run("diff", plain, other)
    assert "B is damaged in 1 place where A is not" in told.out
    assert f"rmqtool salvage {other} {plain} --out DIR" in told.err
    assert f"rmqtool salvage {plain} {other}" not in told.err


def test_logs_that_do_not_touch_are_no_slave_that_lags(run: Callable[..., Run], tmp_path: Path) -> None:
    logs = [shutil.copytree(STORES / "plain-5.3.3" / "commitlog", tmp_path / name) for name in ("a", "b")]
    for path in logs[0].iterdir():
        if int(path.name) >= 16384:
            path.unlink()
    for path in logs[1].iterdir():
        if int(path.name) < 32768:
            path.unlink()
    found = run("diff", *logs)
    assert found.status == 1
    assert "the logs do not touch: A ends at 16384, before B begins at 32768" in found.out
    assert "16384 bytes between are in neither" in found.out
    assert "as a slave that lags" not in found.out
    turned = run("diff", *reversed(logs), "--format", "json")
    assert "B ends at 16384, before A begins at 32768" in differences(turned)[0]["message"]


def test_messages_before_a_log_are_in_the_first_line(run: Callable[..., Run], tmp_path: Path) -> None:
    store, copy = STORES / "plain-5.3.3", tmp_path / "copy"
    shutil.copytree(store, copy)
    (copy / "commitlog" / f"{0:020d}").unlink()
    said = run("diff", store, copy).out.splitlines()[0]
    assert said.endswith(", queues or index list 25 messages before the log's first byte of B"), said
    found = run("diff", copy, store, "--format", "json")
    assert found.status == 5  # no broker has deleted them
    document = found.document
    assert document["healing"] == [{"side": "a", "lost": 0, "held": 0, "damaged": 0, "before": 25}]
    assert "before" not in run("diff", store, store).out


def test_a_checkpoint_of_one_store_counts_as_one_difference(run: Callable[..., Run], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(STORES / "plain-5.3.3", copy)
    (copy / "checkpoint").unlink()
    found = run("diff", STORES / "plain-5.3.3", copy, "--format", "json")
    assert [(row["message"], row["count"]) for row in differences(found)] == [("only A has a checkpoint", 1)]
    assert defects("diff", found.document) == []


def test_a_store_without_its_log_differs_from_one_with_it(run: Callable[..., Run], tmp_path: Path) -> None:
    """As long as anything but queues and index is left; what a rebuild made never had a log."""
    store, copy = STORES / "plain-5.3.3", tmp_path / "copy"
    shutil.copytree(store, copy)
    for file in (copy / "commitlog").iterdir():
        file.unlink()
    for name in ("checkpoint", "lock", "config", "commitlog"):
        found = run("diff", copy, store)
        assert (found.status, "only B has a commitlog" in found.out) == (5, True)
        found = run("diff", store, copy)
        assert (found.status, "only A has a commitlog" in found.out) == (5, True)
        gone = copy / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    found = run("diff", copy, store)
    assert (found.status, "it is not compared" in found.err) == (0, True)
