"""Verdicts as JSON: one document, one object a line, or the findings as csv."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from rmqtool.commands.verify.roots import label_of_root
from rmqtool.findings import Finding
from rmqtool.projection import columns_of, json_object
from rmqtool.report.escaping import escape_text
from rmqtool.report.formats import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TextIO

    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.findings import FindingCode

MANY_SCHEMA = "rmqtool.verify-stores/1"
EXPLAIN_SCHEMA = "rmqtool.explain/1"


def verify_document(verdict: Verdict) -> dict[str, Any]:
    """Return the document of one store; what was not asked for has no key."""
    document = json_object(verdict.report)
    document["findings"] = list(_finding_objects(verdict))
    if verdict.part is not None:
        document["part"] = verdict.part
    if verdict.predictions:
        document["predictions"] = [json_object(prediction) for prediction in verdict.predictions]
    return document | _compared(verdict) | {"exitStatus": int(verdict.status)}


def whole_document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return one document: that of the store, or an array of them where there are several."""
    documents = [verify_document(verdict) for verdict in verdicts]
    if len(documents) == 1:
        return documents[0]
    status = max(verdict.status for verdict in verdicts)
    return {"schema": MANY_SCHEMA, "stores": documents, "exitStatus": int(status)}


def write_verify_json(verdicts: Sequence[Verdict], stream: TextIO) -> None:
    """Write one document, see `whole_document`."""
    stream.write(to_json(whole_document(verdicts), indent=2) + "\n")


def write_verify_ndjson(verdicts: Sequence[Verdict], stream: TextIO) -> None:
    """Write a finding a line, then predictions, then the summary; of several stores, each line says whose."""
    for verdict in verdicts:
        place = _place(verdict) if len(verdicts) > 1 else {}
        for value in _finding_objects(verdict):
            stream.write(to_json(value | place) + "\n")
        document = verify_document(verdict)
        del document["findings"]
        for value in document.pop("predictions", ()):
            stream.write(to_json({"type": "prediction"} | value) + "\n")
        stream.write(to_json({"type": "summary"} | document) + "\n")


def write_verify_csv(verdicts: Sequence[Verdict], stream: TextIO) -> None:
    """Write the findings as csv; hostile characters are escaped, as csv has no form of its own for them."""
    writer = csv.writer(stream, lineterminator="\n")
    rows = [
        (_place(verdict) if len(verdicts) > 1 else {}) | value
        for verdict in verdicts
        for value in _finding_objects(verdict)
    ]
    writer.writerow(rows[0] if rows else (*columns_of(Finding), "root"))
    writer.writerows([_cell(value) for value in row.values()] for row in rows)


def explain_document(entries: Sequence[FindingCode]) -> dict[str, Any]:
    """Return the document of some catalogue entries."""
    return {"schema": EXPLAIN_SCHEMA, "codes": [json_object(entry) for entry in entries]}


def write_explanations_csv(entries: Sequence[FindingCode], stream: TextIO) -> None:
    """Write catalogue entries as csv."""
    writer = csv.writer(stream, lineterminator="\n")
    objects = [json_object(entry) for entry in entries]
    writer.writerow(objects[0])
    writer.writerows(one.values() for one in objects)


def _finding_objects(verdict: Verdict) -> Iterator[dict[str, Any]]:
    for (finding, known), root in zip(verdict.findings(), verdict.roots.of, strict=True):
        value = json_object(finding) | {"root": None if root is None else label_of_root(root)}
        yield value if verdict.comparison is None else value | {"known": known}


def _place(verdict: Verdict) -> dict[str, str | None]:
    return {"store": verdict.report.store, "part": verdict.part}


def _cell(value: object) -> object:
    return escape_text(value) if isinstance(value, str) else value


def _compared(verdict: Verdict) -> dict[str, Any]:
    compared = verdict.comparison
    if compared is None:
        return {}
    baseline = {
        "known": compared.known_count,
        "knownByNumber": compared.by_number,
        "new": compared.new.counts,
        "gone": compared.gone,
    }
    return {"baseline": baseline}
