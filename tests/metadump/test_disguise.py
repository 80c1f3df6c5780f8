"""Names become other names of the same shape, and two never become one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.commands.metadump import make_skeleton
from rmqtool.commands.metadump.config_files import disguised_config
from rmqtool.commands.metadump.disguise import Disguise
from rmqtool.commands.metadump.index_files import _Chains
from rmqtool.errors import RefusedError, UsageError
from rmqtool.javacompat import decode_utf8
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = b"key"
DISGUISE = Disguise(KEY)
PLAIN = "plain-5.3.3"


@given(st.binary(max_size=40))
def test_length_zeros_and_signs_stay(name: bytes) -> None:
    found = DISGUISE.name(name)
    assert len(found) == len(name)
    stays = re.compile(rb"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]")
    assert [(one.start(), one[0]) for one in stays.finditer(found)] == [
        (one.start(), one[0]) for one in stays.finditer(name)
    ]


@given(st.text(max_size=20))
def test_text_stays_text_of_as_many_characters(name: str) -> None:
    found = DISGUISE.text(name)
    assert len(found) == len(name)
    assert len(found.encode("utf-8", "surrogatepass")) == len(name.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=30))
def test_java_reads_malformed_names_as_those_of_their_directories(name: bytes) -> None:
    directory = decode_utf8(name)
    assert decode_utf8(DISGUISE.name(name)) == DISGUISE.text(directory)


def test_two_names_never_become_one() -> None:
    pairs = [f"{first}{second}" for first in "abcdefghijklmnopqrstuvwxyz" for second in "0123456789"]
    assert sorted(DISGUISE.text(one) for one in pairs) == sorted(pairs)
    assert sum(DISGUISE.text(one) == one for one in pairs) < 10


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXX"),
        ("%RETRY%billing", "%RETRY%[a-z]{7}"),
        ("%LMQ%$parent$lite", r"%LMQ%\$[a-z]{6}\$[a-z]{4}"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("Order-17_b", "[A-Z][a-z]{4}-[0-9]{2}_[a-z]"),
        ("7F0000010A2B18B4AAC24AF574000020", "[0-9A-F]{32}"),
        ("支付成功", "[\u4e00-\u9fff]{4}"),
    ],
)
def test_what_stays_of_a_name(name: str, pattern: str) -> None:
    found = DISGUISE.text(name)
    assert re.fullmatch(pattern, found)
    assert (found == name) == (pattern == name)


def test_a_prefixed_name_holds_the_name_itself() -> None:
    assert DISGUISE.text("%DLQ%billing") == "%DLQ%" + DISGUISE.text("billing")


def test_another_key_gives_other_names() -> None:
    assert Disguise(b"other").text("billing-department") != DISGUISE.text("billing-department")


@given(st.binary(max_size=300))
def test_noise_keeps_zeros_and_hides_the_rest(data: bytes) -> None:
    found = DISGUISE.noise(data, "file", 7)
    assert len(found) == len(data)
    assert all((old == 0) == (new == 0) for old, new in zip(data, found, strict=True))
    assert all(old != new for old, new in zip(data, found, strict=True) if old)


def test_config_keeps_its_own_words_numbers_and_mistakes() -> None:
    text = '{"offsetTable":{"Orders@billing":{0:12,"1":9}},"note":"\\u652f","order":true,bad'
    found = disguised_config(text.encode(), DISGUISE).decode()
    place = f"{DISGUISE.text('Orders')}@{DISGUISE.text('billing')}"
    assert found.startswith(f'{{"offsetTable":{{"{place}":{{0:12,"1":9}}}},"')
    assert '"order":true,' in found
    assert "652f" not in found
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(found)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 60))
def test_chains_are_those_of_single_puts(hashes: list[int], slots: int, cut: int) -> None:
    chains, newest, wanted = _Chains(slots), [0] * slots, []
    for item, key_hash in enumerate(hashes, 1):
        wanted.append(newest[key_hash % slots])
        newest[key_hash % slots] = item
    parts = [hashes[:cut], hashes[cut:]]
    found = [
        chains.put(np.array(part, np.int64), 1 + at * cut).tolist() for at, part in enumerate(parts) if part
    ]
    assert [one for part in found for one in part] == wanted
    assert chains.newest.tolist() == newest


def _tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(one.relative_to(root)): (one.stat().st_size, one.stat().st_mtime_ns, one.read_bytes())
        for one in root.rglob("*")
        if one.is_file()
    }


def test_the_store_is_left_alone_and_sizes_and_times_stay(tmp_path: Path) -> None:
    before = _tree(fixture(PLAIN))
    out = tmp_path / "skeleton"
    make_skeleton(open_store(fixture(PLAIN)), out, Listener(), KEY)
    assert _tree(fixture(PLAIN)) == before
    made = _tree(out)
    # the text of the JSON files is no longer than before here: no name in it is escaped
    assert sorted((size, time) for size, time, _ in made.values()) == sorted(
        (size, time) for size, time, _ in before.values()
    )
    assert [one.name for one in tmp_path.iterdir()] == ["skeleton"]


def test_without_a_key_no_two_skeletons_are_alike(tmp_path: Path) -> None:
    for name in "ab":
        make_skeleton(open_store(fixture(PLAIN)), tmp_path / name, Listener())
    log = "commitlog/00000000000000000000"
    assert (tmp_path / "a" / log).read_bytes() != (tmp_path / "b" / log).read_bytes()


def _existing(folder: Path, _store: Path) -> Path:
    (folder / "there").mkdir()
    return folder / "there"


def _inside(_folder: Path, store: Path) -> Path:
    return store / "commitlog" / "skeleton"


@pytest.mark.parametrize("place", [_existing, _inside])
def test_refused_places(place: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    store = fixture(PLAIN)
    before = sorted(store.rglob("*"))
    with pytest.raises(RefusedError):
        make_skeleton(open_store(store), place(tmp_path, store), Listener())
    assert sorted(store.rglob("*")) == before


def test_a_part_of_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="whole store"):
        make_skeleton(open_store(fixture(PLAIN) / "commitlog"), tmp_path / "out", Listener())


def test_nothing_is_left_of_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RefusedError("stop")

    monkeypatch.setattr("rmqtool.commands.metadump.run.write_index_file", fail)
    with pytest.raises(RefusedError, match="stop"):
        make_skeleton(open_store(fixture(PLAIN)), tmp_path / "out", Listener())
    assert list(tmp_path.iterdir()) == []
