"""Real slaves do what ``diff`` says of them: they follow as they are, after a cut, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from rmqtool.commands.diff.verdict import CopiesVerdict, Following

pytestmark = pytest.mark.broker

FILE_BYTES = 8192


def verdict_of(a: Path, b: Path, conf: Path) -> CopiesVerdict:
    """Compare two stores."""
    differences = rmqtool.open(a, broker_conf=conf).diff(rmqtool.open(b, broker_conf=conf))
    for _ in differences:
        pass  # the verdict comes after the last
    verdict = differences.comparison.verdict
    assert verdict is not None
    return verdict


def cut(root: Path, following: Following) -> None:
    """Cut a slave's log as ``diff`` says."""
    assert following.file is not None
    assert following.position is not None
    file = root / following.file
    data = file.read_bytes()
    file.write_bytes(data[: following.position].ljust(len(data), b"\0"))
    for later in file.parent.iterdir():
        if later.name > file.name:
            later.unlink()


def log_of(root: Path, stop: int) -> bytes:
    """Return the bytes of a log up to an offset, zeros where files are missing."""
    data = bytearray(stop)
    for file in sorted((root / "commitlog").iterdir()):
        part = file.read_bytes()[: max(0, stop - int(file.name))]
        data[int(file.name) : int(file.name) + len(part)] = part
    return bytes(data)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_slave_does_what_the_verdict_says(version: jvm.Version, tmp_path: Path) -> None:
    """Pairs that brokers made: a copy, a lag, more of its own, two masters; each as it is, and cut."""
    store = fixture_store(f"plain-{version}")
    roots = {
        name: store.copy_to(tmp_path / name)
        for name in ("same", "short", "long", "left", "right", "other", "first", "late")
    }
    for name, messages in (("long", 9), ("left", 40), ("right", 20), ("other", 1), ("other", 20)):
        jvm.serve(version, [jvm.Found(roots[name], store.conf)], append=messages)
    for file in sorted((roots["short"] / "commitlog").iterdir())[-2:]:
        file.unlink()
    for name, gone in (("first", slice(1, None)), ("late", slice(0, 2))):  # 3388, alibaba/RocketMQ#81
        for file in sorted((roots[name] / "commitlog").iterdir())[gone]:
            file.unlink()
    shutil.copytree(roots["late"], tmp_path / "copied")
    roots["copied"] = tmp_path / "copied"
    pairs = {
        ("long", "same"): ("one", "as-it-is"),
        ("same", "short"): ("one", "as-it-is"),
        ("same", "long"): ("one", "cut"),  # 3161, 1155
        ("left", "right"): ("parted", "cut"),
        ("right", "left"): ("parted", "cut"),
        ("left", "other"): ("parted", "cut"),
        ("late", "first"): ("apart", "copy"),
        ("late", "copied"): ("equal", "as-it-is"),
    }
    told: dict[tuple[str, str], CopiesVerdict] = {}
    tried: list[tuple[jvm.Found, Path]] = []
    expected = []
    for number, ((master, slave), said) in enumerate(pairs.items()):
        verdict = verdict_of(roots[master], roots[slave], store.conf)
        following = verdict.following[0]
        assert (verdict.histories, following.slave, following.answer) == (said[0], "b", said[1]), (
            master,
            slave,
        )
        told[master, slave] = verdict
        for is_cut in (False, True) if said[1] == "cut" else (False,):
            copies = [
                Path(shutil.copytree(roots[name], tmp_path / f"{number}-{is_cut}-{name}"))
                for name in (master, slave)
            ]
            if is_cut:
                cut(copies[1], following)
            tried.append((jvm.Found(copies[0], store.conf), copies[1]))
            expected.append(is_cut or said[1] == "as-it-is")
    rows = jvm.follow(version, tried)
    wrong = []
    for (found, copied), row, fits in zip(tried, rows, expected, strict=True):
        end = row["masterEnd"]
        follows = row["end"] == end and not row["behind"] and log_of(found.root, end) == log_of(copied, end)
        wrong += [] if follows is fits else [(copied.name, row)]
    assert wrong == []
    parting = told["left", "right"]
    assert parting.parting == told["long", "same"].shares[1].end
    assert [share.records for share in parting.shares] == [40, 20]
    assert parting.promote == "a"
    assert parting.loses == 20
    assert told["same", "long"].promote == "b"
    for number, name in ((3, "right"), (5, "other")):  # it has gone on with the master's bytes
        merged = next(slave for _, slave in tried if slave.name == f"{number}-False-{name}")
        again = verdict_of(roots["left"], merged, store.conf)
        assert (again.histories, again.parting) == ("parted", parting.parting)
        assert again.joint is not None
        assert again.joint >= told["left", name].shares[1].end
        assert again.following[0].cut_at == parting.parting
