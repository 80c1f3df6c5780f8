"""Runs commands in this process and holds what they print against the schema of its name."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from jsonschema import Draft202012Validator

from tests.house.schemas import SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Runner


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of a published schema."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def defects(name: str, value: object) -> list[str]:
    """Return what is wrong with a value by a schema, the closest of each alternative."""
    return [_told(one) for one in validator(name).iter_errors(value)]


def _told(error: object) -> str:
    context = getattr(error, "context", ()) or ()
    inner = min(context, key=lambda one: len(str(one.message)), default=error)
    return f"{getattr(error, 'json_path', '')}: {str(getattr(inner, 'message', inner))[:300]}"


COMMANDS: dict[str, tuple[str, ...]] = {
    "info": ("info",),
    "verify": ("verify", "--predict-recovery"),
    "dump": ("dump", "--slots", "--chains", "--hex", "--body", "text"),
    "offsets": ("offsets",),
}
"""Commands that need a store only, by the name of their schema."""


def wrong_outputs(run: Runner, root: Path, name: str) -> list[str]:
    """Run a command on a store, for json and ndjson; return what its schemas do not allow."""
    words = (COMMANDS[name][0], root, *COMMANDS[name][1:], "--live") if name == "verify" else (
        COMMANDS[name][0],
        root,
        *COMMANDS[name][1:],
    )
    found = []
    for form in ("json", "ndjson"):
        done = run(*words, "-q", "--format", form)
        lines = [done.out] if form == "json" else done.out.splitlines()
        for line in lines if done.out else []:
            found += defects(name if form == "json" else f"{name}-line", json.loads(line))
    return found
