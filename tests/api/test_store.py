"""Opening stores, and what a look at one tells."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import rmqtool


def test_a_store_tells_what_it_is(plain: Path) -> None:
    store = rmqtool.open(plain)
    assert (store.path, store.kind) == (plain, "store")
    assert repr(store) == f"<rmqtool.Store store {str(plain)!r}>"
    assert store.topic_names() == ("%DLQ%billing", "%RETRY%billing", "Orders", "Payments", "TopicTest")
    info = store.info()
    assert info.log is not None
    assert (info.log.files, info.log.end, len(info.queues)) == (7, 55309, 10)
    assert info.settings == tuple(store.settings.values())


def test_a_path_may_be_text(plain: Path) -> None:
    assert rmqtool.open(str(plain)).path == plain


def test_settings_are_given_by_their_own_names(plain: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=4096\nmessageIndexEnable=false\nbrokerName=a\n")
    store = rmqtool.open(
        plain, broker_conf=conf, properties={"mappedFileSizeCommitLog": 8192, "enableLmq": True}
    )
    found = {name: (one.value, one.origin.value) for name, one in store.settings.items()}
    assert found["mappedFileSizeCommitLog"] == (8192, "given")
    assert found["messageIndexEnable"] == (False, "given")
    assert found["enableLmq"] == (True, "given")
    assert found["maxIndexNum"][1] == "inferred"
    texts = rmqtool.open(plain, properties=["mappedFileSizeCommitLog=8192"])
    assert texts.settings["mappedFileSizeCommitLog"] == store.settings["mappedFileSizeCommitLog"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"properties": {"nonsense": 1}}, "no broker has a property 'nonsense'"),
        ({"properties": {"maxIndexNum": "many"}}, "a broker expects an integer"),
        ({"properties": "maxIndexNum=1"}, "pass a mapping"),
        ({"broker_version": "3.2"}, "give one of 4.9"),
        ({"timezone": "Nowhere"}, "no time zone"),
        ({"type": "log"}, "give one of commitlog, consumequeue"),
        ({"broker_conf": "/nowhere"}, "/nowhere: cannot be opened"),
    ],
)
def test_nonsense_is_a_usage_error(plain: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(rmqtool.UsageError, match=message):
        rmqtool.open(plain, **options)  # type: ignore[arg-type]


def test_what_is_no_store_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(rmqtool.EnvironmentFailureError, match="give a store root"):
        rmqtool.open(tmp_path / "nowhere")


def test_a_part_of_a_store(plain: Path) -> None:
    log = rmqtool.open(plain / "commitlog")
    assert log.kind == rmqtool.open(plain, type="commitlog").kind == "commitlog"
    assert sum(1 for _ in log) == 163
    queues = rmqtool.open(plain / "consumequeue" / "TopicTest")
    assert [len(queue) for queue in queues.queues()] == [24, 25, 25, 23]
    with pytest.raises(rmqtool.EnvironmentFailureError, match="no commit log there"):
        queues.messages()
    with pytest.raises(rmqtool.UsageError, match="is not a store root"):
        log.offsets()
    with pytest.raises(rmqtool.EnvironmentFailureError, match="holds settings of the broker"):
        rmqtool.open(plain / "config").info()


def test_a_closed_store_is_not_asked(plain: Path) -> None:
    with rmqtool.open(plain) as store:
        assert store.info().kind == "store"
    assert repr(store).endswith("(closed)>")
    with pytest.raises(rmqtool.UsageError, match="this store is closed; open it again"):
        store.info()


def test_files_are_given_back(plain: Path) -> None:
    """As many descriptors are open afterwards as before, of rows that were left half drawn, too."""
    gc.collect()  # what earlier tests left is not to be given back meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    with rmqtool.open(plain) as store:
        with store.messages() as messages:
            next(messages)
        next(store.queue("TopicTest", 0).units())
        next(store.index().items())
        list(store.query(topic="TopicTest", key="order-140"))
        store.info()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_consumer_offsets(plain: Path) -> None:
    found = rmqtool.open(plain).offsets()
    assert {row.topic for row in found} >= {"TopicTest"}
    assert rmqtool.open(plain).offsets(topic="Nothing*") == ()


def test_ids_need_no_store() -> None:
    (reading,) = [
        one for one in rmqtool.decode_id("0A09080700002A9F0000000000000CB4") if one.reading == "offset-id"
    ]
    assert (reading.host, reading.port, reading.physical_offset) == ("10.9.8.7", 10911, 0xCB4)
    assert rmqtool.decode_id("nonsense") == ()
    near = rmqtool.decode_id("C0A80114E24018B4AAC24AF57400002A", near="2026-11-21", timezone="UTC")
    assert any(one.timestamp_ms is not None for one in near)
