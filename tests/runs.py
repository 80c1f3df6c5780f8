"""Command lines that run in this process, and what they leave behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.cli import main

if TYPE_CHECKING:
    import pytest


class Run(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects of ndjson output."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> dict[str, Any]:
        """The document of json output; its ``run``, which differs from run to run, is left out."""
        found: dict[str, Any] = json.loads(self.out)
        del found["run"]
        return found


def run_line(capsys: pytest.CaptureFixture[str], *words: object) -> Run:
    """Run a command line, whose words may be paths and numbers."""
    capsys.readouterr()
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Run(status, out, err)
