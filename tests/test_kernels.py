"""Every kernel is compiled before workers need it, for the types that work gives it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(rmqtool.__file__).parent
STORES = PACKAGE.parent / "fixtures" / "stores"
AFTER_WARMING = """
import importlib, pathlib, sys
from rmqtool.kernels import jit
from rmqtool.cli import main
store, out, *modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
jit.compile_kernels()
warmed = {kernel: set(kernel.signatures) for kernel, _ in (*jit._RARE, *jit._ENTRIES)}
assert all(warmed.values())
conf = ("-c", f"{store}/broker.conf", "--progress", "never")
for words in (
    ("verify", store, *conf, "--predict-recovery", "--fail-on", "never", "-o", f"{out}/verify"),
    ("rebuild", store, *conf, "--out", f"{out}/rebuilt"),
    ("dump", f"{store}/commitlog", *conf, "--format", "ndjson", "-o", f"{out}/dump"),
    ("topics", store, *conf, "--queues", "-o", f"{out}/topics"),
    ("query", store, *conf, "--scan", "--topic", "TopicTest", "--key", "k", "-o", f"{out}/query"),
):
    assert main(list(words)) in (0, 1), words
for kernel, signatures in warmed.items():
    for signature in set(kernel.signatures) - signatures:
        print("another signature of", kernel.py_func.__name__, signature)
"""


def _decorator(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else ""


def _is_kernel(node: ast.FunctionDef) -> bool:
    return bool({_decorator(one) for one in node.decorator_list} & {"kernel", "inlined"})


def _module_of(path: Path) -> str:
    return ".".join(("rmqtool", *path.relative_to(PACKAGE).with_suffix("").parts))


def _kernels() -> Iterator[tuple[Path, ast.FunctionDef, set[str]]]:
    """Yield where a kernel stands, what it is, and its decorators."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and _is_kernel(node):
                yield path, node, {_decorator(one) for one in node.decorator_list}


def kernel_modules() -> set[Path]:
    """Return where kernels are."""
    return {path for path, _, _ in _kernels()}


def _calls(node: ast.FunctionDef) -> set[str]:
    found = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    names = {called.id for called in found if isinstance(called, ast.Name)}
    return names | {name.removeprefix("_") for name in names}  # as a kernel of another module may be called


@pytest.mark.full
def test_each_is_registered_or_called_by_one_that_is() -> None:
    kernels = list(_kernels())
    by_name = {node.name: [one for _, one, _ in kernels if one.name == node.name] for _, node, _ in kernels}
    reached, ahead = set(), [node.name for _, node, decorators in kernels if "entry" in decorators]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [called for node in by_name[name] for called in _calls(node) if called in by_name]
    assert len(kernels) > 100
    assert {f"{path.name}: {node.name}" for path, node, _ in kernels if node.name not in reached} == set()


def _called_by_python(node: ast.AST) -> Iterator[str]:
    """Yield the names of all functions that are called outside of kernels."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef) or not _is_kernel(child):
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
                yield child.func.id
            yield from _called_by_python(child)


def test_python_calls_only_kernels_that_are_registered() -> None:
    """The others are compiled without a wrapper for Python: such a call would end the process."""
    inner: dict[str, set[str]] = {}
    for path, node, decorators in _kernels():
        if "entry" not in decorators:
            inner.setdefault(_module_of(path), set()).add(node.name)
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        here = set(inner.get(_module_of(path), ()))
        for statement in (one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)):
            names = {name.name for name in statement.names}
            here |= names & inner.get(statement.module or "", set())
        assert set(_called_by_python(tree)) & here == set(), path


@pytest.mark.parametrize("name", ["crash-5.3.3", "transaction-5.4.0"])
def test_work_asks_for_no_other_types(name: str, tmp_path: Path) -> None:
    """What is registered is what is called: a second signature would be compiled by every worker."""
    modules = {path for path, _, decorators in _kernels() if "entry" in decorators}
    names = [_module_of(path) for path in modules]
    done = subprocess.run(
        [sys.executable, "-c", AFTER_WARMING, str(STORES / name), str(tmp_path), *sorted(names)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "another signature" not in done.stdout
