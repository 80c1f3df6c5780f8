"""Published JSON Schemas: one for every JSON document, one for the lines of every ndjson stream.

``python -m tests.house.readme`` writes them to ``rmqtool/docs/schemas``, from which ``rmqtool schema``
prints them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rmqtool import rows
from rmqtool.account import LogLosses
from rmqtool.account.lost import LostMessage
from rmqtool.carve.writing import LooseRecord
from rmqtool.check import VerifyReport
from rmqtool.commands.carve import CarveReport
from rmqtool.commands.config import ConfigRemark
from rmqtool.commands.convert import ConvertReport
from rmqtool.commands.decode_id import Reading
from rmqtool.commands.diff import Difference, Healing
from rmqtool.commands.diff.verdict import CopiesVerdict
from rmqtool.commands.explain import ExplainedLine
from rmqtool.commands.export import ExportReport
from rmqtool.commands.fleet import FleetSummary, StoreOutcome
from rmqtool.commands.info import EpochsSummary, IndexCoverage, IndexSummary, LogSummary, Part, QueueSummary
from rmqtool.commands.offsets import Progress
from rmqtool.commands.query.consumption import ConsumptionState, Evidence
from rmqtool.commands.query.copies import MessageCopy
from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.commands.repair import RepairReport
from rmqtool.commands.report import StoreReport
from rmqtool.commands.retention import RetentionReport
from rmqtool.commands.salvage import SalvageReport
from rmqtool.commands.topics import TopicsReport, TopicTotals
from rmqtool.errors import ExitStatus
from rmqtool.findings import Finding, FindingCode
from rmqtool.lookup.context import Step
from rmqtool.lookup.delayed import DelayedMessages
from rmqtool.recovery import Prediction
from rmqtool.retention.deletion import FileFate
from rmqtool.rows.replay import ReplayMessage
from rmqtool.salvage import Lost, SalvagePlan
from rmqtool.store import Setting
from tests.house.json_schema import DIALECT, Definitions, Schema, array_of, closed, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATUS: Schema = {"enum": sorted(int(one) for one in ExitStatus)}
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNTS = table_of(_COUNT)
_FLAG: Schema = {"type": "boolean"}
_UNNAMED = "null where only an index item knows of the message."
_LOST_LINE: dict[str, Schema] = {
    "type": {"const": "lost"},
    "topic": {**_TEXT_OR_NULL, "description": f"Of the queue; {_UNNAMED}"},
    "queueId": {"type": ["integer", "null"], "description": f"Of the queue; {_UNNAMED}"},
    "queueOffset": {"type": ["integer", "null"], "description": f"Of the first; {_UNNAMED}"},
}
_KEYED = {"queryKey": {**_TEXT, "description": "The key of --keys-file that the row answers."}}
_ROWS = (*tuple(one for one in get_args(rows.Row) if one not in {rows.Lines, rows.Columns}), rows.Preblank)
_RUN = closed({"version": _TEXT, "arguments": array_of(_TEXT), "begin": _TEXT, "end": _TEXT}) | {
    "description": "The command line that wrote the document."
}
_PARTS = frozenset({"prediction", "salvage-plan"})
"""Documents that are a part of another one, or a file of its own."""
_ANSWERS = (rows.Message, rows.InnerMessage, rows.Damage)


def schema(name: str) -> Schema:
    """Return the schema of one of `NAMES`."""
    definitions = Definitions()
    version, made = _MADE[name]
    body = made(definitions)
    if not name.endswith("-line") and name not in _PARTS:
        body["properties"]["run"] = _RUN
    head = {"$schema": DIALECT, "$id": f"urn:rmqtool:schema:{name}:{version}", "title": _title(name, version)}
    return {**head, **body, "$defs": dict(sorted(definitions.defined.items()))}


def _title(name: str, version: int) -> str:
    document = name.removesuffix("-line")
    return (
        f"rmqtool.{name}/{version}" if document == name else f"a line of ndjson, rmqtool.{document}/{version}"
    )


def _mark(name: str) -> Schema:
    return {"const": f"rmqtool.{name}/{_MADE[name][0]}"}


def _summary(name: str, members: Mapping[str, Schema], optional: str = "") -> Schema:
    return closed({"type": {"const": "summary"}, "schema": _mark(name), **members}, optional.split())


def _table(name: str, row: Schema, members: Mapping[str, Schema], optional: str = "") -> Schema:
    whole = {"schema": _mark(name), "rows": array_of(row), **members, "exitStatus": _STATUS}
    return closed(whole, optional.split())


def _rows(definitions: Definitions, kinds: tuple[Any, ...], more: Mapping[str, Schema]) -> Schema:
    for kind in kinds:
        definitions.defined[kind.__name__] = definitions.object(kind, more, " ".join(more))
    return {"oneOf": [definitions.of(kind) for kind in kinds]}


# --- verify


def _finding(definitions: Definitions) -> Schema:
    more = {"root": _TEXT_OR_NULL, "known": _FLAG, "store": _TEXT, "part": _TEXT_OR_NULL}
    definitions.defined["Finding"] = definitions.object(Finding, more, "known store part root")
    return definitions.of(Finding)


_WORDS: dict[str, Schema] = {
    "verdict": _TEXT,
    **dict.fromkeys(("first", "next", "then"), _TEXT_OR_NULL),
}


def _verdict(definitions: Definitions) -> dict[str, Schema]:
    gone: Schema = {"type": ["integer", "null"]}
    baseline = {"known": _COUNT, "knownByNumber": _COUNTS, "new": _COUNTS, "gone": gone}
    more = {"part": _TEXT, "predictions": array_of(definitions.of(Prediction)), "baseline": closed(baseline)}
    more |= _WORDS
    _finding(definitions)
    return {**definitions.object(VerifyReport)["properties"], **more}


def _verify(definitions: Definitions) -> Schema:
    return closed(
        _verdict(definitions),
        [
            "interrupted",
            "part",
            "predictions",
            "baseline",
            "picture",
            "logLosses",
            "retention",
            "outcomes",
            "outcomesRelease",
        ],
    )


def _verify_line(definitions: Definitions) -> Schema:
    members = {name: one for name, one in _verdict(definitions).items() if name not in {"findings", "schema"}}
    del members["predictions"]
    summary = _summary(
        "verify", members, "interrupted part baseline picture logLosses outcomes outcomesRelease retention"
    )
    prediction = definitions.object(Prediction, {"type": {"const": "prediction"}})
    return {"oneOf": [definitions.of(Finding), prediction, summary]}


def _explain(definitions: Definitions) -> Schema:
    lists = {
        "codes": array_of(definitions.of(FindingCode)),
        "lines": array_of(definitions.of(ExplainedLine)),
    }
    store = {"store": _TEXT} | _WORDS
    return closed({"schema": _mark("explain")} | lists | store, store)


# --- dump, query, decode-id


def _query_facts(definitions: Definitions) -> dict[str, Schema]:
    return {"truncated": _FLAG, "explain": array_of(definitions.of(Step))}


def _answers(definitions: Definitions) -> Schema:
    judged = {
        "consumedBy": {
            **_TEXT_OR_NULL,
            "description": "The group of --consumed-by; null for what it cannot judge.",
        },
        "consumption": {"enum": [*(one.value for one in ConsumptionState), None]},
        "consumptionReason": _TEXT_OR_NULL,
        "consumptionEvidence": {"anyOf": [array_of(definitions.of(Evidence)), {"type": "null"}]},
    }
    return _rows(definitions, _ANSWERS, _KEYED | judged)


def _query(definitions: Definitions) -> Schema:
    row = _answers(definitions)
    return _table("query", row, _query_facts(definitions), "explain truncated")


def _query_line(definitions: Definitions) -> Schema:
    row = _answers(definitions)
    return {"oneOf": [*row["oneOf"], _summary("query", {"truncated": {"const": True}})]}


# --- diff, offsets


def _diff_facts(definitions: Definitions) -> dict[str, Schema]:
    counts = ("compared", "differences", "normalDifferences", "beyondOtherLog", "settings")
    verdict = {"anyOf": [definitions.of(CopiesVerdict), {"type": "null"}]}
    lists = {"healing": array_of(definitions.of(Healing)), "verdict": verdict, "notes": array_of(_TEXT)}
    return {"a": _TEXT, "b": _TEXT, **dict.fromkeys(counts, _COUNTS), **lists}


_CONFIG: dict[str, Schema] = {
    "file": {**_TEXT, "description": "The properties file."},
    "release": {**_TEXT, "description": "The broker's."},
    "from": {**_TEXT_OR_NULL, "description": "The release to compare with; null for none."},
    "store": {**_TEXT_OR_NULL, "description": "The store of --store."},
    "settings": {**_COUNT, "description": "Names in the file."},
}
_DELAYED: dict[str, Schema] = {"store": _TEXT, "at": {"type": "integer"}}


def _offsets_facts() -> dict[str, Schema]:
    lag = {**_COUNT, "type": ["integer", "null"], "description": "Null where that of no queue is known."}
    passed = {
        **_COUNT,
        "description": "Of a delay level: messages below its offset that were never delivered.",
    }
    reader = closed(
        {"queues": _COUNT, "lag": lag, "outOfRange": _COUNT, "passedOver": passed}, optional=["passedOver"]
    )
    return {"store": _TEXT, "counts": _COUNTS, "readers": table_of(reader)}


def _line(name: str, kind: Any, facts: Mapping[str, Schema]) -> Callable[[Definitions], Schema]:  # noqa: ANN401
    return lambda definitions: {"oneOf": [definitions.of(kind), _summary(name, facts)]}


def _topics_facts(definitions: Definitions) -> dict[str, Schema]:
    members = definitions.object(TopicsReport)["properties"]
    own = {name: one for name, one in members.items() if name not in {"schema", "rows"}}
    return {**own, "truncated": _FLAG, "counts": _COUNTS}


def _topics(definitions: Definitions) -> Schema:
    return _table("topics", definitions.of(TopicTotals), _topics_facts(definitions))


def _topics_line(definitions: Definitions) -> Schema:
    definitions.defined["TopicTotals"] = definitions.object(TopicTotals, {"store": _TEXT}, "store")
    return {"oneOf": [definitions.of(TopicTotals), _summary("topics", _topics_facts(definitions))]}


# --- many stores

_OF_MANY = ("verify", "rebuild", "topics")
"""Commands for many stores, whose documents are in one of all."""


def _outcome(definitions: Definitions, more: Mapping[str, Schema]) -> Schema:
    return definitions.object(StoreOutcome, {"exitStatus": _STATUS, "verdict": _TEXT_OR_NULL, **more})


def _fleet_head() -> dict[str, Schema]:
    return {"schema": _mark("fleet"), "command": {"enum": [*_OF_MANY, "rebuild-index"]}}


def _fleet(definitions: Definitions) -> Schema:
    for name in _OF_MANY:
        definitions.defined[name] = _MADE[name][1](definitions)
    documents = [{"$ref": f"#/$defs/{name}"} for name in _OF_MANY]
    stores = array_of(_outcome(definitions, {"document": {"anyOf": [*documents, {"type": "null"}]}}))
    summary = definitions.object(FleetSummary, {"totals": _COUNTS})
    return closed({**_fleet_head(), "stores": stores, "summary": summary, "exitStatus": _STATUS})


def _fleet_line(definitions: Definitions) -> Schema:
    members = definitions.object(FleetSummary, {"totals": _COUNTS})["properties"]
    store = _outcome(definitions, {"type": {"const": "store"}})
    all_stores = closed({"type": {"const": "fleet"}, **_fleet_head(), **members, "exitStatus": _STATUS})
    return {"oneOf": [store, all_stores]}


def _export(definitions: Definitions) -> Schema:
    """Findings of several stores name theirs; see `rmqtool.findings.StoreFinding`."""
    definitions.defined["Finding"] = definitions.object(Finding, {"store": _TEXT}, "store")
    return definitions.object(ExportReport)


# --- info

_STATE: dict[str, Schema] = {
    "abort": _FLAG,
    "abortProcess": {"type": ["integer", "null"]},
    "lockHolder": _TEXT_OR_NULL,
    "before": {"type": ["integer", "null"], "minimum": 0, "description": "Null if not counted."},
    "retention": {**_TEXT_OR_NULL, "description": "The next deletions of a broker; null if not known."},
}
_NOTE = {"note": _TEXT_OR_NULL}


def _info(definitions: Definitions) -> Schema:
    def or_null(kind: Any) -> Schema:  # noqa: ANN401 - a dataclass
        return {"anyOf": [definitions.of(kind), {"type": "null"}]}

    whole = {
        "schema": _mark("info"),
        "path": _TEXT,
        "kind": _TEXT,
        "settings": table_of(definitions.object(Setting, _NOTE)),
        "commitlog": or_null(LogSummary),
        "queues": array_of(definitions.of(QueueSummary)),
        "index": array_of(definitions.of(IndexSummary)),
        "indexCoverage": or_null(IndexCoverage),
        "otherParts": array_of(definitions.of(Part)),
        "checkpoint": or_null(rows.Checkpoint),
        "epochs": or_null(EpochsSummary),
        **_STATE,
        "logLosses": or_null(LogLosses),
        "findings": array_of(definitions.of(Finding)),
        "counts": _COUNTS,
        "exitStatus": _STATUS,
    }
    return closed(whole)


def _info_line(definitions: Definitions) -> Schema:
    def typed(name: str, kind: Any, more: Mapping[str, Schema] | None = None) -> Schema:  # noqa: ANN401
        return definitions.object(kind, {"type": {"const": name}, **(more or {})})

    place = {"type": {"const": "store"}, "schema": _mark("info"), "path": _TEXT, "kind": _TEXT}
    lines = [
        closed(place | _STATE),
        typed("setting", Setting, {"name": _TEXT} | _NOTE),
        typed("commitlog", LogSummary),
        typed("queue", QueueSummary),
        typed("index", IndexSummary),
        typed("index-coverage", IndexCoverage),
        typed("part", Part),
        typed("epochs", EpochsSummary),
        typed("log-losses", LogLosses),
        definitions.of(rows.Checkpoint),
        definitions.of(Finding),
    ]
    return {"oneOf": lines}


def _progress_line(_definitions: Definitions) -> Schema:
    progress = {
        "type": {"const": "progress"},
        "stage": _TEXT,
        "doneBytes": _COUNT,
        "totalBytes": {"type": ["integer", "null"]},
        "seconds": {"type": "number"},
    }
    said = closed({"type": {"enum": ["note", "detail", "warning", "error"]}, "message": _TEXT})
    return {"oneOf": [closed(progress), said]}


def _salvage(definitions: Definitions) -> Schema:
    return definitions.object(SalvageReport, {"exitStatus": _STATUS}, "exitStatus")


_MADE: dict[str, tuple[int, Callable[[Definitions], Schema]]] = {
    "info": (1, _info),
    "info-line": (1, _info_line),
    "query": (2, _query),
    "query-line": (2, _query_line),
    "query-copies": (1, lambda definitions: _table("query-copies", definitions.of(MessageCopy), {})),
    "query-copies-line": (1, lambda definitions: definitions.of(MessageCopy)),
    "dump": (2, lambda definitions: _table("dump", _rows(definitions, _ROWS, {}), {})),
    "dump-line": (2, lambda definitions: _rows(definitions, _ROWS, {})),
    "verify": (2, _verify),
    "verify-line": (2, _verify_line),
    "fleet": (1, _fleet),
    "fleet-line": (1, _fleet_line),
    "explain": (1, _explain),
    "explain-line": (
        1,
        lambda definitions: {"oneOf": [definitions.of(FindingCode), definitions.of(ExplainedLine)]},
    ),
    "prediction": (1, lambda definitions: definitions.object(Prediction)),
    "diff": (2, lambda definitions: _table("diff", definitions.of(Difference), _diff_facts(definitions))),
    "diff-line": (2, lambda definitions: _line("diff", Difference, _diff_facts(definitions))(definitions)),
    "offsets": (1, lambda definitions: _table("offsets", definitions.of(Progress), _offsets_facts())),
    "offsets-line": (1, _line("offsets", Progress, _offsets_facts())),
    "config": (1, lambda definitions: _table("config", definitions.of(ConfigRemark), _CONFIG)),
    "config-line": (1, _line("config", ConfigRemark, _CONFIG)),
    "delayed": (1, lambda definitions: _table("delayed", definitions.of(DelayedMessages), _DELAYED)),
    "delayed-line": (1, _line("delayed", DelayedMessages, _DELAYED)),
    "topics": (1, _topics),
    "topics-line": (1, _topics_line),
    "export": (1, _export),
    "replay-line": (1, lambda definitions: definitions.of(ReplayMessage)),
    "rebuild": (2, lambda definitions: definitions.object(RebuildReport)),
    "carve": (1, lambda definitions: definitions.object(CarveReport, {"exitStatus": _STATUS}, "exitStatus")),
    "convert": (1, lambda definitions: definitions.object(ConvertReport)),
    "loose-line": (1, lambda definitions: definitions.of(LooseRecord)),
    "repair": (1, lambda definitions: definitions.object(RepairReport)),
    "salvage": (1, _salvage),
    "salvage-plan": (1, lambda definitions: definitions.object(SalvagePlan)),
    "salvage-lost-line": (1, lambda definitions: definitions.object(Lost, _LOST_LINE)),
    "report": (1, lambda definitions: definitions.object(StoreReport, {"exitStatus": _STATUS} | _WORDS)),
    "lost-line": (1, lambda definitions: definitions.of(LostMessage)),
    "retention": (1, lambda definitions: definitions.object(RetentionReport)),
    "retention-line": (1, lambda definitions: definitions.object(FileFate)),
    "decode-id": (1, lambda definitions: _table("decode-id", definitions.of(Reading), {})),
    "decode-id-line": (1, lambda definitions: definitions.object(Reading)),
    "progress-line": (1, _progress_line),
}
"""Version and maker by name; the version is that of the documents' ``schema``."""

NAMES = tuple(_MADE)

SCHEMAS = Path(__file__).parents[2] / "rmqtool" / "docs" / "schemas"


def schema_files() -> dict[str, str]:
    """Return the text of every file by its name."""
    return {f"{name}.json": json.dumps(schema(name), indent=1) + "\n" for name in NAMES}


def write_schemas() -> None:
    """Write every file anew; one of a schema that is no more goes."""
    for old in SCHEMAS.iterdir():
        old.unlink()
    for name, text in schema_files().items():
        (SCHEMAS / name).write_text(text)
