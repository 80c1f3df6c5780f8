"""A verdict as JSON: one document, one object a line, or the findings as csv."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from rmqtool.commands.verify import Verdict, label_of_root
from rmqtool.findings import Finding, FindingCode
from rmqtool.projection import columns_of, json_object
from rmqtool.report.formats import Format, write_document
from rmqtool.report.verify_text import verdict_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


EXPLAIN_SCHEMA = "rmqtool.explain/1"
FINDING_COLUMNS = (*columns_of(Finding), "root")


def verify_document(verdict: Verdict) -> dict[str, Any]:
    """Return the document of one store; parts that were not requested have no key."""
    document = json_object(verdict.report)
    document["findings"] = list(finding_objects(verdict))
    if verdict.part is not None:
        document["part"] = verdict.part
    if verdict.predictions:
        document["predictions"] = [json_object(prediction) for prediction in verdict.predictions]
    return document | _compared(verdict) | verdict_words(verdict) | {"exitStatus": int(verdict.status)}


def verify_lines(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield a finding a line, then predictions, then the summary."""
    yield from finding_objects(verdict)
    document = verify_document(verdict)
    del document["findings"]
    for value in document.pop("predictions", ()):
        yield {"type": "prediction"} | value
    yield {"type": "summary"} | document


def lines_of_store(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the same for one store of many: each finding names its store."""
    place = {"store": verdict.report.store, "part": verdict.part}
    for value in verify_lines(verdict):
        yield value | place if value["type"] == "finding" else value


def write_verdict(verdict: Verdict, chosen: Format, stream: TextIO) -> None:
    """Write a verdict for programs; csv has the findings."""
    columns = FINDING_COLUMNS if verdict.comparison is None else (*FINDING_COLUMNS, "known")
    lines, rows = partial(verify_lines, verdict), partial(finding_objects, verdict)
    write_document(chosen, stream, partial(verify_document, verdict), lines, columns, rows)


def write_explanations(entries: Sequence[FindingCode], chosen: Format, stream: TextIO) -> None:
    """Write catalogue entries for programs."""
    codes = [json_object(entry) for entry in entries]
    document = {"schema": EXPLAIN_SCHEMA, "codes": codes}
    write_document(chosen, stream, lambda: document, lambda: codes, codes[0], lambda: codes)


def finding_objects(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the kept findings as objects, each with the code of the finding that it follows from."""
    for (finding, known), root in zip(verdict.findings(), verdict.roots.of, strict=True):
        value = json_object(finding) | {"root": None if root is None else label_of_root(root)}
        yield value if verdict.comparison is None else value | {"known": known}


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
