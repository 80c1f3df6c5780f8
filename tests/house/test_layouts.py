"""Few modules know that queues are files, and that RocksDB may hold them: another layout is one room."""

from __future__ import annotations

import ast
from pathlib import Path

import rmqtool

_PACKAGE = Path(rmqtool.__file__).parent
_QUEUES = {"queue", "cq", "batch_queue"}
OPENS_FILES = {
    "check/derived.py": "the check of the files themselves",
    "commands/diff/run.py": "positions of units in two stores",
    "commands/dump/derived.py": "every byte of a file, damage included",
    "commands/rebuild/compare.py": "files byte by byte",
    "commands/rebuild/judging.py": "files in place beside those that are made",
    "store/inference.py": "sizes of files",
    "store/layout.py": "names, sizes and gaps of files",
    "spark/reading.py": "bytes of files, for equal shares",
}
"""Modules that open a queue's files, and for what; all others ask ``derived.queues``."""


def _modules() -> dict[str, ast.Module]:
    paths = sorted(_PACKAGE.rglob("*.py"))
    return {str(path.relative_to(_PACKAGE)): ast.parse(path.read_text("utf-8")) for path in paths}


def _opens_a_queue(node: ast.AST) -> bool:
    """Whether a node is ``queue.files``, by the names that queues have here."""
    if not isinstance(node, ast.Attribute) or node.attr != "files":
        return False
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", None)
    return name in _QUEUES


def test_few_modules_open_the_files_of_a_queue() -> None:
    found = {label for label, tree in _modules().items() if any(map(_opens_a_queue, ast.walk(tree)))}
    assert found == OPENS_FILES.keys()


def test_one_module_reads_settings_of_topics_and_groups_by_name() -> None:
    found = {
        label
        for label, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "load_config"
    }
    assert found == {"store/broker_json.py"}


def test_one_module_asks_whether_rocksdb_holds_a_part() -> None:
    found = {
        label
        for label, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "is_rocksdb"
    }
    assert found == {"store/files.py"}
