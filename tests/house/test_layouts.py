"""Few modules know that queues are files, and that RocksDB may hold them: another layout is one room."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rmqtool

_PACKAGE = Path(rmqtool.__file__).parent
_QUEUES = {"queue", "cq", "batch_queue"}
OPENS_FILES = {
    "check/derived.py": "the check of the files themselves",
    "commands/diff/run.py": "positions of units in two stores",
    "commands/dump/derived.py": "every byte of a file, damage included",
    "commands/rebuild/compare.py": "files byte by byte",
    "store/inference.py": "sizes of files",
    "store/layout.py": "names, sizes and gaps of files",
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


@pytest.mark.parametrize(
    ("function", "module"),
    [
        ("load_config", "store/broker_json.py"),  # settings of topics and groups, by name
        ("is_rocksdb", "store/files.py"),  # whether a database holds a part
    ],
)
def test_one_module_calls_a_function(function: str, module: str) -> None:
    calls = {
        label
        for label, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == function
    }
    assert calls == {module}
