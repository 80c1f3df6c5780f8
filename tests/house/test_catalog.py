"""The catalogue of findings: every code has cases, every case a code, and the manual lists them all."""

from __future__ import annotations

import re
from pathlib import Path

from rmqtool.findings import CATALOG
from tests.damage.cases import CASES, load_cases

ROOT = Path(__file__).resolve().parents[2]

NO_EDIT_PROVOKES = {
    "CF-TIMER": "no fixture has timed messages; tests/doctor/test_timer.py makes a store that has",
    "CL-INNER-BATCH": "verify looks into no body; tests/cli/test_dump_batches.py damages one for dump",
    "IO-CHANGED": "a file changes while it is read; tests/check/test_log_checks.py lets one shrink",
    "IO-DENIED": "permissions; tests/cli/test_permissions.py takes them away",
    "IO-UNREADABLE": "the disk fails, not the bytes; test_log_checks.py lets reads fail",
    "LMQ-TWICE": "brokers write it so: normal wear of the stores lmqtwice-*, see tests/check/expected.toml",
    "NS-FORGETS": "what a start will do; tests/cli/test_verify_start.py asks for it",
    "NS-LOSES": "what a start will do; tests/cli/test_verify_start.py asks for it",
    "NS-REBUILDS": "what a start will do; tests/cli/test_verify_start.py asks for it",
    "NS-REFUSED": "what a start will do; tests/cli/test_verify_start.py asks for it",
    "NS-UNINDEXED": "what a start will do; tests/outcomes/test_actions.py asks for it",
    "NS-WRONG": "what a start will do; tests/outcomes/test_actions.py asks for it",
    "NS-SKIPPED": "what a start will do; tests/cli/test_verify_start.py asks for it",
    "RM-INTERNAL": "a defect of rmqtool; tests/check/test_run.py makes a check fail",
    "ST-CONFIG": "dump says so; tests/cli/test_dump_config.py damages a file",
    "ST-DLEDGER-LOG": "sound stores of DLedger have it; tests/cli/test_ledger.py opens some",
    "ST-DOUBT": "settings that are not given; tests/commands/test_rebuild_doubts.py gives none",
    "ST-LOCKED": "a process holds the lock; tests/check/test_run.py holds it",
}


def test_every_code_has_a_case_or_a_reason() -> None:
    filed = {path.stem for path in CASES.rglob("*.toml")}
    assert filed | NO_EDIT_PROVOKES.keys() == CATALOG.keys()
    assert not filed & NO_EDIT_PROVOKES.keys()


def test_cases_name_codes_that_there_are() -> None:
    for case in load_cases():
        assert {*case.also, *case.gone, *case.rebuilt} <= CATALOG.keys(), (case.code, case.name)


def test_manual_lists_the_catalogue() -> None:
    table = (ROOT / "rmqtool/docs/findings.md").read_text().partition("<!-- catalogue -->")[2]
    rows = re.findall(r"^\| `([A-Z]+-[A-Z-]+)` \| (\w+) \|", table, re.MULTILINE)
    assert rows == [(entry.code, entry.severity.value) for entry in CATALOG.values()]
