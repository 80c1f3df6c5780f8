"""An archive of this program and all that it imports, for executors that have nothing but Python."""

from __future__ import annotations

import re
import tarfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError, RefusedError, write_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = "rmqtool-pack"
"""Folder into which executors unpack the archive, in their working directory."""
_CACHE = "cache"
_PACKAGE = "rmqtool"
_LEFT_OUT = frozenset({"..", "__pycache__", "include", "tests"})
"""Folders of packages that nothing is imported from, and files that are installed outside of them."""
_NAME = re.compile(r"[\w.-]+")
_LEVEL = 3
"""Of the compression: 9 takes four times as long, for a tenth less."""


class Pack(NamedTuple):
    """A finished archive."""

    path: Path
    size_bytes: int
    packages: tuple[str, ...]

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Spark with which executors use it."""
        return {
            "spark.archives": f"{self.path}#{FOLDER}",
            "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
            "spark.executorEnv.RMQTOOL_CACHE_DIR": f"./{FOLDER}/{_CACHE}",
        }


def make_pack(path: Path, kernels: Path, also: Sequence[str] = ()) -> Pack:
    """Make the archive, ``.tar.gz``; it appears whole.

    ``kernels`` is the folder with the compiled kernels of this version, ``also`` names further installed
    distributions.
    """
    path = path.absolute()
    check_new(path)
    packages = _packages(also)
    partial = path.with_name(f".{path.name}.part")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_LEVEL) as archive:
            for source, name in _files(packages, kernels):
                archive.add(source, name, recursive=False, filter=_plain)
        partial.rename(path)
        size_bytes = path.stat().st_size
    except OSError as failure:
        raise write_failure(failure, path) from failure
    finally:
        partial.unlink(missing_ok=True)
    return Pack(path, size_bytes, tuple(f"{package.name} {package.version}" for package in packages))


def check_new(path: Path) -> None:
    """Raise `RefusedError` if an archive exists already."""
    if path.exists():
        raise RefusedError(f"{path}: exists; choose another name or remove it")


def _packages(also: Sequence[str] = ()) -> list[metadata.Distribution]:
    """Return this distribution, others, and all that they require without an extra, by name."""
    distributions: dict[str, metadata.Distribution] = {}
    wanted = [_PACKAGE, *also]
    while wanted:
        name = wanted.pop()
        key = name.lower().replace("_", "-")
        if key in distributions:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if key == _PACKAGE:
                raise EnvironmentFailureError(
                    "rmqtool is not installed in this Python, so its files are unknown: pip install it, "
                    "then pack"
                ) from None
            continue  # it is for other versions of Python
        distributions[key] = distribution
        wanted += [_name_in(line) for line in distribution.requires or () if "extra ==" not in line]
    return [distributions[key] for key in sorted(distributions)]


def _name_in(requirement: str) -> str:
    matched = _NAME.match(requirement)
    assert matched is not None
    return matched[0]


def _files(packages: list[metadata.Distribution], kernels: Path) -> Iterator[tuple[Path, str]]:
    for distribution in packages:
        if distribution.name == _PACKAGE:  # an editable installation does not list its modules
            package = Path(__file__).parents[1]
            yield from ((path, f"{_PACKAGE}/{path.relative_to(package)}") for path in _below(package))
        for file in distribution.files or ():
            if distribution.name == _PACKAGE and file.parts[0] == _PACKAGE:
                continue
            if _LEFT_OUT.isdisjoint(file.parts) and file.suffix != ".pth":
                yield Path(str(file.locate())), str(file)
    yield from (
        (path, f"{_CACHE}/rmqtool/{kernels.name}/{path.relative_to(kernels)}") for path in _below(kernels)
    )


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drop this machine's users; only the user who unpacks it may change what is executed."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry
