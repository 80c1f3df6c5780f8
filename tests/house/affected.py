"""Runs the quick tests that import what changed: ``python -m tests.house.affected [REVISION]``.

Changed is what differs from a revision, the branch ``main`` if none is named, or is not committed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def name_of(path: str) -> str:
    """Return the name of a module by its path in the repository."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(tree: ast.AST) -> set[str]:
    """Return the names that a module imports, wherever in it: modules, and what may be one in a package."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return names


def affected(changed: set[str], imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that lead to changed ones, these included; ``imports`` are those of each."""
    users = defaultdict(set)
    for name, others in imports.items():
        for other in others:
            users[other].add(name)
    reached, new = set(changed), list(changed)
    while new:
        more = users[new.pop()] - reached
        reached |= more
        new += more
    return reached


def main(revision: str) -> int:
    """Run the tests, and return the status of pytest."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "rmqtool/*.py", "tests/*.py"]
    paths = [path for path in _lines(listed) if (ROOT / path).exists()]
    imports = {name_of(path): imported(ast.parse((ROOT / path).read_text())) for path in paths}
    untracked = ["git", "ls-files", "--others", "--exclude-standard"]
    differing = [*_lines(["git", "diff", "--name-only", "--merge-base", revision]), *_lines(untracked)]
    reached = affected({name_of(path) for path in differing if path.endswith(".py")}, imports)
    tests = [one for one in paths if Path(one).name.startswith("test_") and name_of(one) in reached]
    if not tests:
        print("no test imports what changed")  # noqa: T201 - of a command
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, check=False).returncode


def _lines(words: list[str]) -> list[str]:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["main"]))
