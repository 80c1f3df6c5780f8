"""Call the rebuild as the command line does, and look at evidence without touching it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.commands.rebuild import RebuildRequest
from rmqtool.commands.rebuild.run import rebuild
from rmqtool.engine import EngineOptions
from rmqtool.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.engine import Engine

LOCAL = EngineOptions("local", jobs=2)


@dataclass
class Listener:
    """Remembers what a command says while it works."""

    stages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def stage(self, name: str, total_bytes: int | None) -> None:
        assert total_bytes is None or total_bytes >= 0
        self.stages.append(name)

    def advance(self, done_bytes: int) -> None:
        assert done_bytes >= 0

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


def rebuild_store(
    root: Path,
    conf: Path | None,
    out: Path | None,
    *,
    engine: EngineOptions | Engine = LOCAL,
    listener: Listener | None = None,
    properties: tuple[str, ...] = (),
    **request: Any,  # noqa: ANN401 - any field of the request
) -> RebuildReport:
    """Rebuild the derived files of a store into ``out``.

    Args:
        root: Store root.
        conf: The broker's properties file.
        out: Output directory, or None.
        engine: An open engine, or options of one; by default threads of this process.
        listener: Hears what is said meanwhile.
        properties: Single settings, ``NAME=VALUE``.
        request: Further fields of the request.
    """
    store = open_store(root, broker_conf=conf, properties=properties)
    return rebuild(RebuildRequest(store=store, out=out, engine=engine, **request), listener or Listener())


def fingerprint(root: Path) -> dict[str, tuple[int, int, int, str]]:
    """Return mode, mtime and ctime in ns and SHA-256 (of a directory: of its listing) of all below."""
    return {str(path.relative_to(root)): _identity(path) for path in (root, *sorted(root.rglob("*")))}


def _identity(path: Path) -> tuple[int, int, int, str]:
    status = path.lstat()
    content = (
        "\n".join(sorted(entry.name for entry in path.iterdir())).encode()
        if path.is_dir()
        else path.read_bytes()
    )
    return status.st_mode, status.st_mtime_ns, status.st_ctime_ns, hashlib.sha256(content).hexdigest()


def contents(root: Path) -> dict[str, bytes]:
    """Return all files below a directory by their relative names."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
