"""The JSON of verify is a contract: scripts and baselines of users read it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from rmqtool.commands.verify import Baseline, identity
from rmqtool.projection import json_object
from rmqtool.recovery import Prediction
from rmqtool.releases import RELEASES
from rmqtool.report.output import Format, to_json
from rmqtool.report.verdict import lines_of_store, verify_document, verify_lines, write_verdict
from tests.report.verdicts import ABORT, CRC, HOSTILE, MISSING, TAIL, verdict

if TYPE_CHECKING:
    from rmqtool.commands.verify import Verdict

DOCUMENT_KEYS = [
    *("schema", "store", "level", "result", "notLookedAt"),
    *("examined", "findings", "counts", "exitStatus", "verdict", "first", "next", "then"),
]
FINDING_KEYS = [
    *("type", "code", "severity", "file", "position", "length", "topic", "queueId", "queueOffset"),
    *("physicalOffset", "expected", "observed", "message", "brokerEffect", "remedy", "root"),
]


def document(one: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(verify_document(one)))
    return found


def lines(one: Verdict) -> list[dict[str, Any]]:
    return [json.loads(to_json(line)) for line in verify_lines(one)]


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


def test_every_line_of_one_store_of_many_says_whose_it_is() -> None:
    found = list(lines_of_store(verdict(ABORT, CRC)))
    assert [one["type"] for one in found] == ["finding", "finding", "summary"]
    assert {one["store"] for one in found} == {"/data/store"}


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
    text = to_json(next(verify_lines(verdict(MISSING))))
    assert not set(text) & {"\x1b", "\u202e", "\udc80"}
    assert json.loads(text)["topic"] == HOSTILE


def test_csv_has_the_columns_of_a_finding_even_without_one() -> None:
    stream = io.StringIO()
    write_verdict(verdict(CRC), Format.CSV, stream)
    head, row = csv.reader(io.StringIO(stream.getvalue()))
    assert head == FINDING_KEYS
    assert row[:5] == ["finding", "CL-CRC", "error", "commitlog/00000000000000000000", "1234"]
    stream = io.StringIO()
    write_verdict(verdict(), Format.CSV, stream)
    assert stream.getvalue() == ",".join(FINDING_KEYS) + "\n"
