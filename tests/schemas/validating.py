"""Runs commands in this process and holds what they print against the schema of its name."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from tests.house.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

COMMANDS: dict[str, tuple[str, ...]] = {
    "info": (),
    "verify": ("--predict-recovery", "--live"),
    "dump": ("--slots", "--chains", "--hex", "--body", "text", "--limit", "2000"),
    "offsets": (),
    "topics": (),
    "rebuild": ("--dry-run", "--live", "--engine", "local"),
}
"""Commands that need nothing but a store, with options, by the name of their schema."""

_KINDS_SHOWN = 3


@cache
def published(name: str) -> dict[str, Any]:
    """Return a published schema."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    return found


@cache
def _validator(name: str, kind: str | None = None) -> Draft202012Validator:
    """Return the validator of a schema, or of that of its alternatives that is of a type of rows."""
    schema = published(name)
    chosen = [one for one in schema.get("oneOf", ()) if kind is not None and _type_of(one, schema) == kind]
    if len(chosen) == 1:
        schema = {**chosen[0], "$defs": schema["$defs"]}
    return Draft202012Validator(schema)


def _type_of(schema: dict[str, Any], whole: dict[str, Any]) -> str | None:
    resolved = whole["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    found: str | None = resolved["properties"]["type"].get("const")
    return found


def defects(name: str, value: dict[str, Any]) -> list[str]:
    """Return what is wrong with a document, or with a line, by the schema of its name."""
    validator = _validator(name, value.get("type") if name.endswith("-line") else None)
    return [f"{name} {one.json_path}: {one.message[:300]}" for one in validator.iter_errors(value)]


def wrong_outputs(run: Runner, root: Path, name: str, *more: str) -> list[str]:
    """Run a command on a store, for json and ndjson; return what its schemas do not allow."""
    words = (name, root, *COMMANDS[name], "-q", *more)
    out = run(*words, "--format", "json").out
    found = defects(name, json.loads(out) | ({"rows": []} if name == "dump" else {})) if out else []
    if name == "rebuild":
        return found
    seen: dict[object, int] = {}
    for line in run(*words, "--format", "ndjson").out.splitlines():
        value = json.loads(line)
        kind = value.get("type")
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= _KINDS_SHOWN:
            found += defects(f"{name}-line", value)
    return found
