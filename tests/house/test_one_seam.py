"""Nothing but ``rmqtool.io`` lists, examines or opens a file of a store.

Two proofs. The code: outside of a list of modules, each with its reason, nothing imports or calls what
touches a disk. The deeds: whole commands give the same results on a store that is on no disk at all.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli import main
from rmqtool.io import Location, location_of
from tests.io.memory import in_memory
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(__file__).parents[2] / "rmqtool"

WRITTEN = "writes and reads back what this run makes: staging, scratch, outputs"
NAMED = "reads a file beside the store that the user names"
OURS = "reads files of this package, of Python or of Java"
SYSTEM = "environment, descriptors and processes of this machine"

TOUCHES: dict[str, str] = {
    "io": "the seam itself",
    "store/staging.py": WRITTEN,
    "store/results.py": WRITTEN,
    "store/names.py": WRITTEN,
    "store/disk.py": "changes a store: renames, new files and times below its root, for repair alone",
    "store/lock.py": "names processes from /proc: holder of the lock, writer of a result; locks for repair",
    "reput/blocks.py": WRITTEN,
    "cli/salvage.py": NAMED,
    "report/output.py": WRITTEN,
    "commands/verify/__init__.py": "reads the baseline that the user names",
    "commands/verify/manifest.py": NAMED,
    "cli/query.py": NAMED,
    "cli/explain.py": NAMED,
    "cli/verify.py": NAMED,
    "cli/session.py": WRITTEN,
    "report/page.py": OURS,
    "cli/entry.py": SYSTEM,
    "cli/manual.py": OURS,
    "kernels/jit.py": OURS,
    "caches.py": OURS,
    "engine": "Spark's and Java's own files",
    "spark/__init__.py": "Spark's own files",
}
"""Modules and packages that may call what touches a disk, and why that is no file of a store."""

CALLS = frozenset(
    {"open", "fdopen", "fromfile", "memmap", "mmap", "preadv", "pread", "read_bytes", "read_text", "lseek"}
    | {"stat", "lstat", "fstat", "statvfs", "exists", "lexists", "access", "getsize", "getmtime", "samefile"}
    | {"is_file", "is_dir", "is_symlink", "is_mount", "isfile", "isdir", "islink", "ismount", "samestat"}
    | {"iterdir", "glob", "rglob", "iglob", "walk", "fwalk", "scandir", "listdir", "copytree", "copyfile"}
    | {"resolve", "realpath", "readlink", "rmtree"}
)
"""Methods of paths, and functions of ``os``, ``io``, ``shutil`` … by their last name."""

OUR_OWN = frozenset(
    {
        "session.open",
        "self.open",
        "match.open",
        "self.lost.open",
        "_Probe.open",
        "self._ext.resolve",
        "place.is_file",
        "task.job.walk",
    }
)
"""What is no path of Python's, for all its name."""

DISK_MODULES = frozenset({"os", "io", "pathlib", "shutil", "glob", "tempfile", "mmap", "fcntl", "stat"})
BELOW = frozenset(
    {
        "formats",
        "findings",
        "javacompat",
        "store",
        "scan",
        "derived",
        "doctor",
        "dispatch",
        "reput",
        "recovery",
    }
    | {"check", "salvage", "rows", "carve", "lookup"}
)
"""Rooms that know nothing of this machine's paths, but for the modules above and those below."""

PATHS: dict[str, str] = {
    "store/root.py": "takes the user's path, and tells where nothing may be written",
    "store/broker_conf.py": "takes the path of a broker.conf",
    "store/object_staging.py": WRITTEN,
    "store/results.py": WRITTEN,
}


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _label(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _is_listed(label: str, *lists: dict[str, str]) -> bool:
    return any(label == one or label.startswith(f"{one}/") for names in lists for one in names)


def _touches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield what is called or handed on, as to ``map``; fields of our own may have such names."""
    bare = {"open": "open"} | {
        one.asname or one.name: one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in DISK_MODULES
        for one in node.names
    }
    for own in ast.iter_child_nodes(tree):
        if isinstance(own, ast.FunctionDef):
            bare.pop(own.name, None)  # as `rmqtool.open` is
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        for node in (call.func, *call.args, *(one.value for one in call.keywords)):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if isinstance(node, ast.Name):
                name = bare.get(node.id)
            if name in CALLS and ast.unparse(node) not in OUR_OWN:
                yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "path.open()",
        "(root / 'lock').read_text()",
        "os.path.exists(path)",
        "map(os.stat, paths)",
        "sorted(paths, key=os.path.getsize)",
        "from os import scandir as look\nlook(path)",
        "from pathlib import Path\nPath(place).is_file()",
    ],
)
def test_the_net_holds(code: str) -> None:
    assert [*_touches(ast.parse(code))]


@pytest.mark.full
def test_nothing_else_calls_what_touches_a_disk() -> None:
    found = [
        f"{label}:{line}: {name}"
        for path in _modules()
        if not _is_listed(label := _label(path), TOUCHES)
        for line, name in _touches(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.full
def test_the_rooms_below_do_not_know_this_machine_s_paths() -> None:
    found = []
    for path in _modules():
        label = _label(path)
        if label.partition("/")[0] not in BELOW or _is_listed(label, TOUCHES, PATHS):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{label}: {name}" for name in names if name.partition(".")[0] in DISK_MODULES]
    assert found == []


@pytest.mark.full
def test_no_module_is_listed_in_vain() -> None:
    modules = {_label(path): ast.parse(path.read_text("utf-8")) for path in _modules()}
    for one in TOUCHES:
        assert any(_is_listed(label, {one: ""}) and [*_touches(tree)] for label, tree in modules.items()), one
    assert PATHS.keys() <= modules.keys()


# The deeds

NOWHERE = "/in-memory"


@pytest.fixture(params=["plain-5.5.1", "ext-5.3.3", "batchcq-5.5.1", "crash-4.9.8", "damaged"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store, sound or not, that a real broker made; without its conf, which is none of its files."""
    name = str(request.param)
    copy = tmp_path / "store"
    shutil.copytree(fixture("plain-5.5.1" if name == "damaged" else name), copy)
    if name == "damaged":
        segment, queue = min(copy.glob("commitlog/*")), min(copy.glob("consumequeue/Orders/*/*"))
        segment.write_bytes(segment.read_bytes()[:300] + b"\xff" * 40 + segment.read_bytes()[340:])
        queue.write_bytes(queue.read_bytes()[:-7])
        (copy / "consumequeue/Orders/stray").write_bytes(b"x")
        (copy / "config/topics.json").write_bytes(b"{")
        (copy / "abort").write_bytes(b"1234")
    return copy


@pytest.fixture
def stores(local: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Location]:
    """The same store in memory, twice, under names that the disk does not have and nobody may ask it for."""
    mounted = {name: in_memory(local, name) for name in (f"{NOWHERE}/store", f"{NOWHERE}/other")}

    def place_of(path: str | os.PathLike[str]) -> Location:
        text = os.path.abspath(path)  # noqa: PTH100
        for name, place in mounted.items():
            if text == name or text.startswith(f"{name}/"):
                return Location(place.source, text)
        return location_of(path)

    monkeypatch.setattr("rmqtool.api.functions.location_of", place_of)
    for owner, names in (
        (os, ("stat", "lstat", "open", "scandir", "listdir")),
        (builtins, ("open",)),
        (io, ("open",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, partial(_elsewhere, getattr(owner, name)))
    return mounted


def _elsewhere(function: Callable[..., Any], path: Any = ".", *rest: Any, **options: Any) -> Any:  # noqa: ANN401
    if not isinstance(path, int) and str(os.fspath(path)).startswith(NOWHERE):
        asker = sys._getframe(1).f_globals["__name__"]
        if asker != "click.types":  # which looks at every argument that may be a path
            raise AssertionError(f"{path}: {asker} asks the disk for a file of a store")
    return function(path, *rest, **options)


def _run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([str(word) for word in words] + ["--debug"])
    out, err = capsys.readouterr()
    if "Traceback" in err:
        pytest.fail(err)
    return (
        status,
        out,
        _NEXT.sub(
            "", "".join(line for line in err.splitlines(True) if not line.startswith("compiling once"))
        ),
    )


_NEXT = re.compile(r"Next: .*")
"""Advice: only a store on a disk is repaired."""
_OF_THE_CLOCK = {"seconds", "made", "modified", "run"}
_VARYING = re.compile(r'"run": \{[^}]*\}|"retention": (?:null|"[^"]*")')
"""Members on the run, and on times of files, which an object store has not."""


def _plain(value: object) -> object:
    """Return a result without what the clock says, and without advice: only a store on a disk is repaired."""
    if isinstance(value, dict):
        left_out = {*_OF_THE_CLOCK, "retention", "outcomes", "first", "next", "remedy"}
        return {key: _plain(one) for key, one in value.items() if key not in left_out}
    return [_plain(one) for one in value] if isinstance(value, list) else value


COMMANDS = {
    "info": "info STORE --format json",
    "verify": "verify STORE --level 3 --engine local --jobs 2 --predict-recovery all --format json",
    "verify-part": "verify STORE/consumequeue --level 1 --engine local --format json",
    "report": "report STORE --hash-log --format json",
    "dump": "dump STORE --format ndjson --body hex",
    "dump-type": "dump STORE --type index --slots --chains --hex --format ndjson",
    "dump-queues": "dump STORE --type consumequeue --format ndjson",
    "dump-config": "dump STORE --type config --format ndjson",
    "dump-file": "dump STORE/checkpoint --format ndjson",
    "query-key": "query STORE --topic TopicTest --key order-1 --explain --format json",
    "query-scan": "query STORE --topic TopicTest --key order-1 --scan --format json",
    "query-time": "query STORE --topic Orders --begin 2000-01-01 --max 5 --format json",
    "diff": "diff STORE OTHER --format json",
    "offsets": "offsets STORE --format json",
    "topics": "topics STORE --queues --format json",
    "compare": "rebuild STORE --compare --engine local --format json",
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_gives_the_same_result_on_a_store_that_is_on_no_disk(
    name: str, local: Path, stores: dict[str, Location], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del stores
    other = Path(shutil.copytree(local, tmp_path / "other"))
    results = []
    for names in ((local, other), (f"{NOWHERE}/store", f"{NOWHERE}/other")):
        line = COMMANDS[name].replace("STORE", str(names[0])).replace("OTHER", str(names[1]))
        status, *texts = _run(capsys, *line.split())
        for number, path in ((1, "OTHER"), (0, "STORE")):
            texts = [text.replace(str(names[number]), path) for text in texts]
        results.append((status, texts[0], texts[1]))
    (status, expected, remarks), found = results
    assert status in {0, 1, 5}
    assert (found[0], found[2]) == (status, remarks)
    if name in {"verify", "verify-part", "report", "compare"}:
        assert _plain(json.loads(found[1])) == _plain(json.loads(expected))
    else:
        assert _VARYING.sub("", found[1]) == _VARYING.sub("", expected)


@pytest.mark.few(2)
def test_a_rebuild_from_no_disk_gives_the_same_files(
    local: Path, stores: dict[str, Location], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del stores
    results = []
    for number, store in enumerate((local, f"{NOWHERE}/store")):
        out = tmp_path / f"out{number}"
        status, *_ = _run(capsys, "rebuild", store, "--out", out, "--engine", "local")
        files = {
            path.relative_to(out): path.read_bytes()
            for path in out.rglob("*")
            if path.parent != out and path.is_file()
        }
        results.append((status, files))
    assert results[0] == results[1]
    assert results[0][1]


def test_a_manifest_of_no_disk_is_the_same(
    local: Path, stores: dict[str, Location], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del stores
    for number, store in enumerate((local, f"{NOWHERE}/store")):
        words = ("verify", store, "--level", "0", "--manifest", f"write:{tmp_path / str(number)}")
        assert _run(capsys, *words, "--engine", "local")[0] in {0, 5, 1}
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes() != b""
