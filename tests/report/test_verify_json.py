"""The JSON of verify is a contract: scripts and baselines of users read it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from rmqtool.commands.verify.baseline import Baseline, identity
from rmqtool.projection import json_object
from rmqtool.recovery.model import Prediction
from rmqtool.releases import RELEASES
from rmqtool.report.verify_json import write_verify_csv, write_verify_json, write_verify_ndjson
from tests.report.verdicts import ABORT, CRC, HOSTILE, MISSING, TAIL, verdict

if TYPE_CHECKING:
    from rmqtool.commands.verify.verdict import Verdict

DOCUMENT_KEYS = [
    *("schema", "store", "level", "result", "notLookedAt"),
    *("examined", "findings", "counts", "exitStatus"),
]
FINDING_KEYS = [
    *("type", "code", "severity", "file", "position", "length", "topic", "queueId", "queueOffset"),
    *("physicalOffset", "expected", "observed", "message", "brokerEffect", "remedy", "root"),
]


def document(*verdicts: Verdict) -> dict[str, Any]:
    stream = io.StringIO()
    write_verify_json(verdicts, stream)
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


def lines(*verdicts: Verdict) -> list[dict[str, Any]]:
    stream = io.StringIO()
    write_verify_ndjson(verdicts, stream)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def with_baseline() -> Verdict:
    one = verdict(CRC, MISSING)
    baseline = Baseline()
    baseline.listed[identity(json_object(CRC))] = 1
    baseline.listed[identity(json_object(TAIL))] = 1
    one.comparison = baseline.compare(one.report.findings)
    return one


def test_document_has_the_keys_of_the_contract_in_their_order() -> None:
    found = document(verdict(CRC, MISSING, TAIL))
    assert list(found) == DOCUMENT_KEYS
    assert found["schema"] == "rmqtool.verify/2"
    assert (found["result"], found["exitStatus"]) == ("log-damage", 5)
    assert found["counts"] == {"CL-CRC": 1, "CQ-MISSING-MSG": 1, "CL-TAIL-ZERO": 1}
    assert list(found["examined"].items()) == [
        ("commitlogFiles", 2),
        ("records", 163),
        ("bytes", 16384),
        ("consumeQueues", 4),
        ("units", 160),
        ("indexFiles", 1),
        ("items", 412),
    ]
    assert [list(one) for one in found["findings"]] == [FINDING_KEYS] * 3


def test_lines_are_findings_and_then_a_summary() -> None:
    *findings, summary = lines(verdict(MISSING, ABORT))
    assert [list(one) for one in findings] == [FINDING_KEYS] * 2
    assert list(summary) == ["type", *(key for key in DOCUMENT_KEYS if key != "findings")]
    assert (summary["type"], summary["result"], summary["exitStatus"]) == ("summary", "derived-damage", 1)


def test_several_stores_are_one_document_and_each_line_says_whose_it_is() -> None:
    both = verdict(ABORT), verdict(CRC)
    found = document(*both)
    assert list(found) == ["schema", "stores", "exitStatus"]
    assert [one["exitStatus"] for one in found["stores"]] == [0, 5]
    assert found["exitStatus"] == 5
    assert [one["type"] for one in lines(*both)] == ["finding", "summary", "finding", "summary"]
    assert {one["store"] for one in lines(*both)} == {"/data/store"}


def test_a_baseline_marks_findings_and_leaves_the_result_alone() -> None:
    found = document(with_baseline())
    assert [one["known"] for one in found["findings"]] == [True, False]
    assert found["baseline"] == {"known": 1, "knownByNumber": {}, "new": {"CQ-MISSING-MSG": 1}, "gone": 1}
    assert (found["result"], found["exitStatus"]) == ("log-damage", 1)


def test_predictions_are_lines_of_their_own() -> None:
    one = verdict()
    one.predictions = (Prediction("/data/store", RELEASES["5.3.3"]),)
    prediction, summary = lines(one)
    assert (prediction["type"], prediction["brokerVersion"]) == ("prediction", "5.3.3")
    assert "predictions" not in summary
    assert document(one)["predictions"][0]["loads"] is True


def test_hostile_text_reaches_no_terminal() -> None:
    stream = io.StringIO()
    write_verify_ndjson([verdict(MISSING)], stream)
    text = stream.getvalue()
    assert not set(text) & {"\x1b", "\u202e", "\udc80"}
    assert json.loads(text.splitlines()[0])["topic"] == HOSTILE


def test_csv_has_the_columns_of_a_finding_even_without_one() -> None:
    stream = io.StringIO()
    write_verify_csv([verdict(CRC)], stream)
    head, row = csv.reader(io.StringIO(stream.getvalue()))
    assert head == FINDING_KEYS
    assert row[:5] == ["finding", "CL-CRC", "error", "commitlog/00000000000000000000", "1234"]
    stream = io.StringIO()
    write_verify_csv([verdict()], stream)
    assert stream.getvalue() == ",".join(FINDING_KEYS) + "\n"
