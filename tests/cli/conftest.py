"""Running commands in this process, and stores to run them on."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

STORES = Path(__file__).parents[2] / "fixtures" / "stores"
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())


@dataclass(frozen=True)
class Run:
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
        """The document of json output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Runner = "Callable[..., Run]"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run a command line in this process."""

    def run_command(*words: object) -> Run:
        capsys.readouterr()
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Run(status, out, err)

    return run_command


@pytest.fixture(params=STORE_NAMES)
def any_store(request: pytest.FixtureRequest) -> Path:
    """Every store that a real broker made."""
    return STORES / str(request.param)


@pytest.fixture
def plain() -> Path:
    """An ordinary store of 4.9.8."""
    return STORES / "plain-4.9.8"


@pytest.fixture
def plain_copy(tmp_path: Path, plain: Path) -> Path:
    """A copy of it that may be damaged."""
    return Path(shutil.copytree(plain, tmp_path / "store"))
