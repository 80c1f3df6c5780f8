"""``rmqtool help incidents``, row by row: the state, the command that shows the cause, and the cure."""

from __future__ import annotations

import gzip
import json
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from rmqtool.cli.group import ROOT
from rmqtool.findings import CATALOG
from tests.damage.cases import load_cases
from tests.damage.edits import edited
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.damage.cases import Case
    from tests.runs import Run

    _Run = Callable[..., Run]

_THREADS = "tests/broker/test_threads.py::test_the_remedy_cures_it"
_COPIES = "tests/broker/test_copies.py::test_a_slave_does_what_the_verdict_says"
_MERGED = "tests/broker/test_merged_settings.py"
_SELECTIONS = "tests/cli/test_selections.py"
_RETENTION = "tests/cli/test_retention.py"
PROVEN = {
    "any line of store.log": "tests/cli/test_explain.py::test_units_in_wrong_slots_and_their_cure",
    "a whole log": "tests/broker/test_log_lines.py::test_lines_of_a_start_on_a_damaged_log",
    '"logic queue order maybe wrong"': _THREADS,
    '"found a illegal magic code"': _THREADS,
    '"CRC check failed"': "test_a_damaged_body_is_taken_from_the_replica",
    "a setting of broker.conf has no effect": "tests/cli/test_config.py::test_files_that_people_asked_about",
    "after an upgrade": "tests/broker/test_threads.py::test_a_file_of_settings_from_an_older_release",
    '"length not matched message store config value", the broker': "test_a_file_of_another_size",
    '"Offset not matched. Request offset" again and again, of Flush': (
        "tests/cli/test_explain.py::test_a_queue_that_is_exactly_full_is_harmless"
    ),
    "the same of WriteSocketService": _COPIES,
    '"selectMapedBuffer request pos invalid"': "test_a_message_that_the_broker_says_it_cannot_read",
    '"readLocalOffset Exception': "tests/commands/test_explain.py::test_every_line_is_recognised",
    '"Offset not matched. Request offset" after files': _THREADS,
    "what will the next start do": "tests/broker/test_lost.py::test_the_list_is_what_a_start_takes_away",
    "messages are in the log, and no consumer gets them": _THREADS,
    "queues or index were deleted": _THREADS,
    "a file in the middle of `commitlog/`": _THREADS,
    "a file of the log has another name": "test_a_file_under_another_name_is_put_back",
    "a file of another broker was restored": "test_the_file_of_another_broker_gives_way_to_the_right_one",
    "`commitlog/` was deleted": "test_a_deleted_log_is_carved_out_of_the_disk",
    "topics, groups or offsets are missing": "test_forgotten_settings_are_made_of_what_is_left",
    "`config/` or `consumerOffset.json`": (
        f"{_MERGED}::test_a_lost_config_is_made_of_queues_and_of_messages_that_were_sent_back"
    ),
    "a group stands still": "test_an_offset_beyond_its_queue_is_set_to_the_end",
    "has this message been consumed": "tests/broker/test_consumption.py::test_fates_of_messages",
    "delayed messages never come": (
        "tests/broker/test_passed.py::test_delayed_messages_below_the_offset_come_after_the_remedy"
    ),
    "transactions hang": f"{_SELECTIONS}::test_transactions_in_doubt_are_shown_as_what_they_would_be",
    "which messages has a group not read": (
        f"{_SELECTIONS}::test_dead_letters_and_transactions_can_be_sent_again"
    ),
    "a text is somewhere": f"{_SELECTIONS}::test_texts_are_found_in_packed_bodies",
    "which topic fills the disk": "tests/commands/topics/test_totals.py::test_the_slowest_reader_is_named",
    '"CODE: 208': "tests/cli/test_query.py::test_without_an_index_the_log_itself_answers",
    "no key is found after a crash": "test_a_rebuilt_index_finds_the_keys_again",
    "an ID, and nobody knows": "tests/cli/test_query.py::test_ids_lead_to_their_messages",
    "a backup was started": f"{_RETENTION}::test_an_old_backup_loses_all_but_its_last_file",
    "messages were deleted before anybody": (f"{_RETENTION}::test_a_full_disk_deletes_what_nobody_has_read"),
    "the disk is full": f"{_RETENTION}::test_by_the_disk",
    "master and slave differ": _COPIES,
    "controller mode": (
        "tests/broker/test_copies.py::test_a_slave_in_controller_mode_cuts_where_the_released_class_says"
    ),
    "after a slave was made master": (
        "tests/broker/test_threads.py::test_a_slave_that_was_made_master_counts_from_an_older_place"
    ),
    "after a switch": f"{_MERGED}::test_a_broker_knows_what_was_merged",
    "has anybody changed": "tests/commands/verify/test_manifest.py::test_every_difference_is_named",
    "messages are wanted as a table": "tests/cli/test_export.py::test_a_report_is_shown_and_kept",
}
"""The test that follows each row, by the beginning of its symptom; one of this file has no path."""


def _symptoms(page: str) -> list[str]:
    rows = [line.removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith(("Symptom |", "--- |"))]


def test_each_row_has_a_test_that_follows_it(run: _Run) -> None:
    symptoms = _symptoms(run("help", "incidents").out)
    for symptom in symptoms:
        assert [begin for begin in PROVEN if symptom.startswith(begin)], symptom
    for begin, test in PROVEN.items():
        assert len([symptom for symptom in symptoms if symptom.startswith(begin)]) == 1, begin
        path, _, name = test.rpartition("::")
        file = Path(__file__) if not path else Path(__file__).parents[2] / path
        assert f"def {name}(" in file.read_text(), test


def test_commands_and_codes_of_the_page_are_there(run: _Run) -> None:
    """What the page names can be pasted: commands with these options, and codes that verify has."""
    page = run("help", "incidents").out
    lines = re.findall(r"`(rmqtool [^`]*)`", page)
    assert len(lines) > 30
    for line in lines:
        _, name, *words = shlex.split(line)
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None, line
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, line
    assert set(re.findall(r"`([A-Z]{2}-[A-Z-]+)`", page)) <= CATALOG.keys()


def _cases(code: str) -> list[Case]:
    return [case for case in load_cases() if case.code == code]


def _verified(run: _Run, root: Path, *words: object) -> dict[str, Any]:
    return run("verify", root, *words, "--format", "json").document


def _first(document: dict[str, Any], code: str) -> dict[str, Any]:
    return next(finding for finding in document["findings"] if finding["code"] == code)


def _done(run: _Run, command: str) -> Path:
    """Carry out a command that a report names, as a user pastes it; return the store that it leaves."""
    name, *words = shlex.split(command)
    if name != "rmqtool":
        subprocess.run([name, *words], check=True, capture_output=True)
        return Path(words[-1])
    run(*(word for word in words if word != "--plan"), *(["--yes"] if words[0] == "repair" else ["-q"]))
    return Path(words[words.index("--out") + 1] if "--out" in words else words[1])


def test_a_damaged_body_is_taken_from_the_replica(run: _Run, tmp_path: Path) -> None:
    replica = fixture("plain-5.3.3")
    root = edited(replica, tmp_path / "store", [{"record": 20, "field": "body", "flip": 1}])
    assert "CL-CRC" in _verified(run, root)["counts"]
    (command,) = re.findall(r"(rmqtool salvage .*) DIR$", run("diff", root, replica).err, re.MULTILINE)
    healed = _done(run, f"{command} {shlex.quote(str(tmp_path / 'healed'))}")
    assert run("verify", healed).status == 0
    compared = run("diff", healed, replica, "--format", "json").document
    assert (compared["verdict"]["histories"], compared["healing"]) == ("equal", [])


@pytest.mark.parametrize("what", ["log", "queue", "setting", "stray"])
def test_a_file_of_another_size(run: _Run, tmp_path: Path, what: str) -> None:
    """Each of the ways out that the row names, by what ``verify`` says."""
    whole = fixture("plain-5.3.3")
    root, settings = shutil.copytree(whole, tmp_path / "store"), list[str]()
    log, queue = f"commitlog/{16384:020d}", f"consumequeue/TopicTest/0/{0:020d}"
    if what == "log":
        (root / log).write_bytes((whole / log).read_bytes()[:5000])
    elif what == "queue":
        (root / queue).write_bytes((whole / queue).read_bytes()[:100])
    elif what == "setting":
        settings = ["-p", "mappedFileSizeConsumeQueue=6000000"]
    else:
        (root / "commitlog" / "notes.txt").write_text("who was here")
    document = _verified(run, root, *settings, "--predict-recovery")
    assert "NS-REFUSED" in document["counts"]
    if what == "log":
        assert _first(document, "CL-STRAY")["file"] == log
        shutil.copyfile(whole / log, root / log)
    elif what == "setting":
        assert "mappedFileSizeConsumeQueue" in _first(document, "ST-SETTINGS")["message"]
    else:
        _done(run, document["next"])
    again = _verified(run, root, "--predict-recovery")
    assert ("NS-REFUSED" in again["counts"], again["exitStatus"]) == (False, 0)


def test_a_message_that_the_broker_says_it_cannot_read(run: _Run) -> None:
    """The file has the message, and a start loses nothing."""
    root = fixture("plain-5.3.3")
    row = next(row for row in run("dump", root / "commitlog", "--format", "ndjson").objects[30:])
    start = row["physicalOffset"] // 8192 * 8192
    line = (
        f"selectMappedBuffer request pos invalid, request pos: {row['physicalOffset'] - start}, "
        f"size: {row['totalSize']}, fileFromOffset: {start}"
    )
    (told,) = run("explain", line, root, "--format", "json").document["lines"]
    assert (told["name"], told["here"]) == ("beyond-written", "nothing")
    assert "begins a message of" in told["places"][0]
    assert "a restart sets it right" in told["meaning"]
    assert "start and lose nothing" in _verified(run, root, "--predict-recovery")["verdict"]


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("case", _cases("CL-MISNAMED"), ids=lambda case: case.name)
def test_a_file_under_another_name_is_put_back(run: _Run, tmp_path: Path, case: Case, packs: bool) -> None:
    root = damaged_copy(case, tmp_path)
    if packs:
        (other,) = (path for path in (root / "commitlog").iterdir() if not path.name.isdigit())
        name = re.findall(r"\d{20}", other.name)[0]
        (root / "commitlog" / f"{name}.gz").write_bytes(gzip.compress(other.read_bytes()))
        other.unlink()
    document = _verified(run, root)
    assert document["first"].startswith("on a copy, put back the file of the log")
    copy, finding = _done(run, document["next"]), _first(document, "CL-MISNAMED")
    misnamed = copy / finding["file"]
    data = misnamed.read_bytes()
    misnamed.unlink()
    (copy / "commitlog" / finding["expected"]).write_bytes(gzip.decompress(data) if packs else data)
    assert _verified(run, copy)["counts"].keys() == case.base_codes


@pytest.mark.parametrize("case", _cases("CL-FOREIGN"), ids=lambda case: case.name)
def test_the_file_of_another_broker_gives_way_to_the_right_one(run: _Run, tmp_path: Path, case: Case) -> None:
    root = damaged_copy(case, tmp_path)
    document = _verified(run, root)
    assert document["first"].startswith("on a copy, put the right file in the place of")
    salvaged = _done(run, document["next"])
    assert "CL-FOREIGN" not in _verified(run, salvaged)["counts"]
    assert "NS-REFUSED" not in _verified(run, salvaged, "--predict-recovery")["counts"]
    label = _first(document, "CL-FOREIGN")["file"]
    shutil.copyfile(fixture(case.store) / label, root / label)
    assert _verified(run, root)["counts"].keys() == case.base_codes


def test_a_deleted_log_is_carved_out_of_the_disk(run: _Run, tmp_path: Path) -> None:
    """All that the queues list is found in the image, and the log of it is the log again."""
    root, lost = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store"), tmp_path / "lost.ndjson"
    chance, image = random.Random(7), tmp_path / "image"
    files = [path.read_bytes() for path in (root / "commitlog").iterdir()]
    chance.shuffle(files)
    image.write_bytes(b"".join(chance.randbytes(4096) + file for file in files))
    shutil.rmtree(root / "commitlog")
    found = _verified(run, root, "--predict-recovery", "--lost", lost)
    assert "ST-NO-COMMITLOG" in found["counts"]
    assert "pass storePathCommitLog" in found["first"]
    run("carve", image, "--out", tmp_path / "carved")
    carved = run("dump", tmp_path / "carved", "--format", "ndjson").objects
    places = {(row["topic"], row["queueId"], row["queueOffset"]) for row in carved if "topic" in row}
    listed = [json.loads(row) for row in lost.read_text().splitlines()]
    assert len(listed) > 100
    assert {(row["topic"], row["queueId"], row["queueOffset"]) for row in listed} <= places
    shutil.copytree(tmp_path / "carved" / "commitlog", root / "commitlog")
    assert run("verify", root).status == 0


@pytest.mark.parametrize("case", _cases("CF-FORGETS"), ids=lambda case: case.name)
def test_forgotten_settings_are_made_of_what_is_left(run: _Run, tmp_path: Path, case: Case) -> None:
    """By a choice of the plan; where nothing is left, by a replica, as the plan says."""
    root = damaged_copy(case, tmp_path)
    assert "CF-FORGETS" in run("info", root).out
    plan = run("repair", root, "--plan", "--format", "json").document
    words = [
        word
        for config in plan["configs"]
        if config["choices"]
        for word in ("--config", f"{config['file'].rpartition('/')[2]}={config['choices'][0]['name']}")
    ]
    if gone := [part["why"] for part in plan["left"] if part["why"].startswith("nothing is left of it")]:
        assert all(why.endswith("(--settings-from OTHER)") for why in gone)
        words += ["--settings-from", str(fixture(case.store))]
    assert run("repair", root, "--only", "config", *words, "--yes").status == 0
    assert "CF-FORGETS" not in _verified(run, root)["counts"]


def test_an_offset_beyond_its_queue_is_set_to_the_end(run: _Run, tmp_path: Path) -> None:
    root = damaged_copy(_cases("OF-AHEAD")[0], tmp_path)
    shown = ["offsets", root, "--out-of-range", "--format", "ndjson"]
    (row,) = (row for row in run(*shown).objects if row["type"] == "offset")
    assert "set the group's offset of that" in run("explain", "OF-AHEAD").out
    file = root / row["file"]
    file.write_text(file.read_text().replace(f":{row['offset']}", f":{row['maxOffset']}"))
    assert [row["type"] for row in run(*shown).objects] == ["summary"]
    assert "OF-AHEAD" not in _verified(run, root)["counts"]


@pytest.mark.parametrize("code", ["IX-GONE", "IX-MISSING"])
def test_a_rebuilt_index_finds_the_keys_again(run: _Run, tmp_path: Path, code: str) -> None:
    case = _cases(code)[0]
    root = damaged_copy(case, tmp_path)
    place = _first(_verified(run, root), code)["physicalOffset"]
    (message,) = run("query", root, "--offset", place, "--format", "ndjson").objects
    wanted = ["query", root, "-t", message["topic"], "-k", message["keys"][0]]
    run("rebuild-index", root, "--out", tmp_path / "out", "--engine", "local")
    shutil.rmtree(root / "index")
    (tmp_path / "out" / "index").rename(root / "index")
    assert run(*wanted).status == 0
    assert "answered by the index: 1 hit" in run(*wanted).err
    assert _verified(run, root)["counts"].keys() == case.base_codes
