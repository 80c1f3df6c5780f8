"""Real stores in controller mode change their roles, and do what ``diff`` and ``verify`` foretell."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.stores import fixture_store
from tests.broker.test_copies import cut, log_of, verdict_of

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.diff.verdict import Following

pytestmark = pytest.mark.broker

EPOCHS = "epochFileCheckpoint"
VERSIONS: tuple[jvm.Version, ...] = ("5.3.3", "5.5.1")
CASES = {  # master and slave: the answer, and whether the slave follows as it is, and once it is cut as told
    ("b", "a"): ("as-it-is", True),
    ("a", "b"): ("as-it-is", True),
    ("b", "a-bare"): ("cut", False, True),
    ("a", "b-bare"): ("cut", False, True),
    ("a", "a-bare"): ("as-it-is", True),
    ("a-bare", "b"): ("copy", False),
    ("a-late", "empty"): ("as-it-is", True),
    ("b-bare", "empty"): ("as-it-is", True),
    ("b-rest", "empty"): ("copy", False),
    ("a-bare", "b-bare"): ("copy", False),
    ("b", "b-torn"): ("as-it-is", True),
    ("a", "b-torn"): ("copy", False),
    ("b", "a-torn"): ("unknown", False),
}


def stores(version: jvm.Version, tmp_path: Path, conf: Path) -> None:
    """Let B follow A and lead after it, while A, now dead, has 25 messages of its own; and make variants."""
    a, b = tmp_path / "a", tmp_path / "b"
    steps = (a, conf, "1", "60", b, "25"), (b, conf, "2", "15", "-", "0")
    jvm.run(version, "Controlled", "one-by-one", *(word for step in steps for word in step))
    for name in ("a-bare", "a-late", "a-torn", "b-bare", "b-rest", "b-torn"):
        shutil.copytree(tmp_path / name[0], tmp_path / name)
    for name in ("a-bare", "b-bare", "b-rest"):
        for file in (tmp_path / name).glob(f"{EPOCHS}*"):
            file.unlink()
    for name in ("a-late", "b-rest"):
        (tmp_path / name / "commitlog" / f"{0:020d}").unlink()
    (tmp_path / "a-torn" / EPOCHS).write_text("1\n")
    (tmp_path / "b-torn" / EPOCHS).write_text("2\n69385\n")  # its .bak is whole, and lacks epoch 2
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_in_controller_mode_does_what_the_verdict_says(version: jvm.Version, tmp_path: Path) -> None:
    plain, conf = fixture_store(f"plain-{version}").conf, tmp_path / "broker.conf"
    conf.write_text(f"{plain.read_text()}enableControllerMode=true\n")
    stores(version, tmp_path, conf)
    told: dict[tuple[str, str], Following] = {}
    tried: list[tuple[str, Path, Path]] = []
    for number, (names, (answer, *_)) in enumerate(CASES.items()):
        verdict = verdict_of(tmp_path / names[0], tmp_path / names[1], conf)
        told[names] = following = verdict.following[0]
        assert (following.slave, following.answer) == ("b", answer), (names, following.why)
        if names == ("b", "a"):
            assert (verdict.histories, verdict.promote, verdict.loses) == ("parted", "a", 25)
            assert following.cut_at == verdict.parting
        for is_cut in (False, True) if answer == "cut" else (False,):
            master, slave = (tmp_path / f"{number}{is_cut:d}-{name}" for name in names)
            for name, copy in zip(names, (master, slave), strict=True):
                shutil.copytree(tmp_path / name, copy)
            if is_cut:
                cut(slave, following)
            tried.append((f"{names} {is_cut}", master, slave))
    words = [word for _, master, slave in tried for word in (master, conf, "9", "3", slave, "0")]
    rows = jvm.run(version, "Controlled", "together", *words)
    outcomes = [outcome for _, *all_of_it in CASES.values() for outcome in all_of_it]
    for (name, master, slave), row, outcome in zip(tried, rows, outcomes, strict=True):
        end = row.get("masterEnd", -1)
        has_all = end == row.get("end") and not row["behind"]
        assert (has_all and log_of(master, end) == log_of(slave, end)) is outcome, (name, row)
    assert "NumberFormatException" in rows[-1]["refused"]
    found = {}
    for name in ("a", "b", "a-torn", "b-torn"):
        report = rmqtool.open(tmp_path / name, broker_conf=conf).verify(jobs=1)
        found[name] = [one.severity.name for one in report.findings if one.code.code == "ST-EPOCHS"]
    assert found == {"a": [], "b": [], "a-torn": ["ERROR"], "b-torn": ["WARNING"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_loads_those_epochs_that_are_shown(version: jvm.Version, tmp_path: Path) -> None:
    """Files torn at every byte, some with a .bak: loaded, or passed over for it, or the end of the start."""
    text = "2\n693853566\n1-0\n2-17691\n"
    bad = [
        "2\n0\n1-0\n2\n",
        "1\n0\n1-0\n2\n",
        "1\n0\n-1\n",
        "1\n0\n1-x\n",
        "1\r\n0\r\n1-0",
        "1\n\n1-0\n",
        "1\n0\n1--5\n",
    ]
    bad += [
        "2\n0\n1-0\n1-9\n",
        "+1\n-0\n+1-+7\n",
        "1\n0\n1-0-\n",
        "1\n0\n1-9223372036854775808\n",
        "1\n0\n2147483648-1\n",
        "é",
    ]
    texts = [text[:end] for end in range(len(text) + 1)] + bad
    roots = []
    for number, torn in enumerate(texts):
        for is_kept in (False, True):
            roots.append(tmp_path / f"{number}-{is_kept:d}")
            (roots[-1] / "commitlog").mkdir(parents=True)
            (roots[-1] / EPOCHS).write_bytes(torn.encode("latin-1"))
            if is_kept:
                (roots[-1] / f"{EPOCHS}.bak").write_text("1\n0\n1-0\n")
    (roots[-1] / EPOCHS).unlink()  # the .bak alone
    rows = jvm.run(version, "Controlled", "epochs", *(root / EPOCHS for root in roots))
    for root, row in zip(roots, rows, strict=True):
        read = open_store(root).read_epochs
        assert (read[-1][1] is None) is ("refused" in row), ((root / EPOCHS).read_bytes(), row)
        epochs = {str(epoch): start for epoch, start in (read[-1][1] or {}).items()}
        assert epochs == row.get("epochs", {}), ((root / EPOCHS).read_bytes(), row)
    assert sum("refused" in row for row in rows) >= len(roots) // 8
