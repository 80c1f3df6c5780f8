"""Tell what an earlier run has rebuilt already, so that a run over many stores goes on where that ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.commands.rebuild.run import REPORT_NAME
from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, FailOn, Severity
from rmqtool.findings.status import status_of
from rmqtool.projection import json_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from pathlib import Path

    from rmqtool.store import Store

_LARGEST_REPORT = 256 << 20


def made_before(
    out: Path, store: Store, *, parts: Set[str], mode: str, partial: bool, compared: bool
) -> dict[str, Any] | None:
    """Return the report of a result that is there; None if there is none of this store, made like that.

    A result appears by one rename, with its report in it: where the report is, all of it is.

    Args:
        out: Directory of the result.
        store: Of which it must be, with the settings in effect.
        parts: What is asked for, as of `RebuildRequest`.
        mode: As of `RebuildReport`.
        partial: Whether a choice of messages is asked for.
        compared: Whether present files are to be compared.
    """
    try:
        with (out / REPORT_NAME).open("rb") as file:
            document = json.loads(file.read(_LARGEST_REPORT))
    except (OSError, ValueError):
        return None
    wanted = {
        "schema": RebuildReport.schema,
        "store": str(store.base),
        "mode": mode,
        "partial": partial,
        "compared": compared,
        "settings": json_value({setting.name: setting for setting in store.settings}),
    }
    if not isinstance(document, dict) or any(document.get(name) != one for name, one in wanted.items()):
        return None
    has_queues = "consumequeue" in parts and bool(document["records"])
    return document if bool(document["queues"]) == has_queues else None


def status_made_before(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status that a report of an earlier run stands for, as `RebuildReport.exit_status`."""
    weights = [(Severity(one["severity"]), CATALOG[one["code"]].structure) for one in document["findings"]]
    status = status_of(weights, fail_on)
    is_less = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_less else status
