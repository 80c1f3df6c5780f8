"""The examples of the manual's page about the library are run as they stand."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import rmqtool

if TYPE_CHECKING:
    import pytest

PAGE = Path(rmqtool.__file__).parent / "docs" / "library.md"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_are_run(
    plain: Path, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory with the two stores that the page names; … stands for what differs from run to run."""
    shutil.copytree(plain, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctest, "ELLIPSIS_MARKER", r"\u2026")  # as it compares outputs in ASCII
    assert damaged == tmp_path / "damaged"
    blocks = _BLOCK.findall(PAGE.read_text())
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 30
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)
