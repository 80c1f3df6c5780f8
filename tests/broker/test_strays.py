"""What a broker makes of entries that are no files of its directories, and what `verify` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.starts import Case, judged
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

DIRECTORIES = ("commitlog", "consumequeue/TopicTest/0", "index")
STRAYS = {
    "a directory": ("lost+found", None),
    "a directory in front": (".snapshot", None),
    "a directory named by a number": ("00000000000000000001", None),
    "empty, the last": ("notes", 0),
    "empty, the first": (".keep", 0),
    "a text": ("notes.txt", 1),
    "of the right size": ("notes", -1),
}
CODES = {"CL-STRAY", "CQ-STRAY", "IX-STRAY"}


def cases(folder: Path, version: jvm.Version) -> Iterator[Case]:
    """Yield a store for each stray in each directory."""
    store = fixture_store(f"plain-{version}")
    for number, place in enumerate(DIRECTORIES):
        for what, (name, size) in STRAYS.items():
            root = store.copy_to(folder / f"{number}-{name}-{size}")
            path = root / place / name
            if size is None:
                path.mkdir()
            else:
                full = next(one.stat().st_size for one in path.parent.iterdir() if one.is_file())
                path.write_bytes(bytes(full if size < 0 else size))
            yield Case(f"{place}: {what}", root, store.conf)


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_stray_is_an_error_where_the_broker_does_not_start(version: jvm.Version, tmp_path: Path) -> None:
    made = list(cases(tmp_path, version))
    said = {}
    for case in made:
        with rmqtool.open(case.root, broker_conf=case.conf) as store:
            (finding,) = (one for one in store.verify().findings if one.code.code in CODES)
            said[case.name] = finding
    for case, prediction, differences in judged(version, made):
        finding = said[case.name]
        assert differences == [], case.name
        assert (finding.severity.value == "error") is not prediction.starts, case.name
        assert (finding.broker_effect == "Does not start.") is not prediction.starts, case.name
