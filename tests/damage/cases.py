"""The case files in ``fixtures/damage``: one for each code that an edit of a store provokes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "damage"
EXPECTED = Path(__file__).parents[1] / "check" / "expected.toml"


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        code: the finding that it is about, the name of its file.
        name: what happened to the store.
        why: why these bytes matter.
        store: the fixture that is damaged.
        edits: what is done to a copy.
        first: fields of the first finding of the code, as JSON names them; also ``count`` of all of them.
        also: further codes that the fixture itself does not have.
        gone: codes of the fixture that are not met any more.
        status: exit status of verify.
        rebuilt: codes that are left, or appear, once the derived files are rebuilt from the log.
        rebuilt_status: exit status of verify then.
        no_rebuild: why no rebuild can follow; empty if it does.
        properties: settings that are given.
        manifest: whether a manifest of the store before the edits is checked as well.
    """

    code: str
    name: str
    why: str
    store: str
    edits: list[dict[str, Any]]
    first: dict[str, Any]
    also: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    status: int = 0
    rebuilt: list[str] = field(default_factory=list)
    rebuilt_status: int = 0
    no_rebuild: str = ""
    properties: list[str] = field(default_factory=list)
    manifest: bool = False

    @property
    def base_codes(self) -> set[str]:
        """Return the codes of the fixture as it is."""
        return set(expected_codes()[self.store])


@cache
def expected_codes() -> dict[str, list[str]]:
    """Return the codes that each fixture has: normal wear."""
    return tomllib.loads(EXPECTED.read_text())


@cache
def load_cases() -> tuple[Case, ...]:
    """Read all case files.

    Raises:
        TypeError: a case has a key that no case has, or lacks one.
    """
    return tuple(
        Case(code=path.stem, **table)
        for path in sorted(CASES.glob("*.toml"))
        for table in tomllib.loads(path.read_text())["case"]
    )


def one_of_each_code() -> list[Case]:
    """Return the first case of every code, for what depends on the kind of damage alone."""
    return list({case.code: case for case in reversed(load_cases())}.values())
