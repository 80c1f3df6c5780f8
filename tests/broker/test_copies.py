"""Real slaves do what ``diff`` says of them: they follow as they are, after a cut, or not at all."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.log_damage import LogCopy
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


_EPOCHS = """
import java.util.*;
import org.apache.rocketmq.remoting.protocol.EpochEntry;
import org.apache.rocketmq.store.ha.autoswitch.EpochFileCache;

public class Epochs {
    static EpochFileCache cache(String path, String places, String end) {
        EpochFileCache cache = new EpochFileCache(path);
        cache.initCacheFromFile();
        for (String place : places.split(",")) {
            String[] pair = place.split("-");
            cache.appendEntry(new EpochEntry(Integer.parseInt(pair[0]), Long.parseLong(pair[1])));
        }
        cache.setLastEpochEntryEndOffset(Long.parseLong(end));
        return cache;
    }

    public static void main(String[] words) {
        for (int at = 0; at < words.length; at += 6) {
            EpochFileCache master = cache(words[at], words[at + 1], words[at + 2]);
            EpochFileCache slave = cache(words[at + 3], words[at + 4], words[at + 5]);
            System.out.println(slave.findConsistentPoint(master));
        }
    }
}
"""


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_a_slave_in_controller_mode_cuts_where_the_released_class_says(
    version: jvm.Version, tmp_path: Path
) -> None:
    """9689, 9942: the files are those that `EpochFileCache` writes."""
    store = fixture_store(f"plain-{version}")
    places = [place for segment in LogCopy(store.copy_to(tmp_path / "read")).records for place in segment]
    first, second, within = places[40], places[90], places[90] + 5
    end = rmqtool.open(store.root).diff(rmqtool.open(store.root))
    assert list(end) == []
    assert end.comparison.verdict is not None
    log_end = end.comparison.verdict.shares[0].end
    cases = {
        (f"1-0,3-{first}", f"1-0,2-{second}"): ("as-it-is", first),
        (f"1-0,2-{second}", f"1-0,2-{second}"): ("as-it-is", None),
        (f"1-0,3-{within}", f"1-0,2-{within + 9}"): ("copy", None),
        (f"1-0,3-{FILE_BYTES}", f"1-0,4-{second}"): ("as-it-is", FILE_BYTES),
        (f"2-{first}", f"1-0,2-{second}"): ("copy", None),
        (f"3-{first},5-{second}", f"1-0,3-{first}"): ("as-it-is", second),
    }
    words: list[str] = []
    roots = []
    for number, case in enumerate(cases):
        roots.append([store.copy_to(tmp_path / f"{number}{name}") for name in "ab"])
        for root, epochs in zip(roots[-1], case, strict=True):
            words += [str(root / "epochFileCheckpoint"), epochs, str(log_end)]
    source = tmp_path / "Epochs.java"
    source.write_text(_EPOCHS)
    tools = jvm.toolchain()
    assert not isinstance(tools, str)
    command = [str(tools.java), "-cp", f"{jvm.build(version) / 'lib'}/*", str(source), *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    points = [int(line) for line in told.stdout.split()]
    for (a, b), (answer, cut_at), point in zip(roots, cases.values(), points, strict=True):
        with rmqtool.open(b, broker_conf=store.conf) as slave:
            assert "ST-EPOCHS" not in slave.verify(jobs=1).findings.counts
        (following, _) = verdict_of(a, b, store.conf).following
        if following.slave != "b":
            (_, following) = verdict_of(a, b, store.conf).following
        assert (following.answer, following.cut_at) == (answer, cut_at), following.why
        if answer == "as-it-is":
            assert point == (log_end if cut_at is None else cut_at)
        else:
            assert point in {-1, within}
