"""Every setting says where it comes from: given, inferred, default."""

from __future__ import annotations

import pickle
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import rmqtool
from rmqtool.errors import UsageError
from rmqtool.projection import json_object
from rmqtool.releases import NEWEST, OLDEST, RELEASES
from rmqtool.store import Origin, open_store
from rmqtool.store.broker_conf import CONCERNING, DEFINITIONS, known_broker_properties
from rmqtool.store.settings import RECOVER_FILES
from tests.store.fixture_stores import STORE_ROOTS, fixture
from tests.store.index_builder import build_index

PLAIN = fixture("plain-4.9.8")
INFERRED = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")


@pytest.mark.few(10)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_what_is_inferred_of_a_broker_s_store_is_what_the_broker_was_given(root: Path) -> None:
    given = open_store(root, broker_conf=root / "broker.conf").settings
    for setting in open_store(root).settings:
        if setting.origin is Origin.INFERRED and given[setting.name].origin is Origin.GIVEN:
            assert setting.value == given[setting.name].value, setting.name


@pytest.mark.every_store
@pytest.mark.few(10)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_the_broker_s_version_is_recognised(root: Path) -> None:
    setting = open_store(root).settings["brokerVersion"]
    assert setting.origin is Origin.INFERRED
    if root.name.startswith("downgrade-"):  # only the files that it lacks would tell
        assert open_store(root).settings.touched_by_5_4
    else:
        assert root.name.rpartition("-")[2] in setting.candidates


@pytest.mark.parametrize(
    "root", [root for root in STORE_ROOTS if "index" not in root.name], ids=lambda root: root.name
)
def test_sizes_are_inferred(root: Path) -> None:
    settings = open_store(root).settings
    assert {settings[name].origin for name in INFERRED} == {Origin.INFERRED}
    assert settings.defaulted_sizes() == []


def test_special_queues_are_recognised() -> None:
    assert open_store(fixture("ext-4.9.8")).settings.enable_consume_queue_ext
    assert not open_store(PLAIN).settings.enable_consume_queue_ext
    assert open_store(fixture("lmq-4.9.8")).settings.enable_lmq is True
    assert open_store(PLAIN).settings.enable_multi_dispatch is None
    assert open_store(fixture("batchcq-5.3.3")).settings.batch_topics
    assert open_store(PLAIN).settings.batch_topics == frozenset()


def test_the_zone_of_index_names() -> None:
    setting = open_store(fixture("unicode-4.9.8")).settings
    assert (setting["indexTimezone"].value, setting["indexTimezone"].origin) == ("UTC+08:00", Origin.INFERRED)
    assert setting.index_timezone.utcoffset(None) == timedelta(hours=8)
    given = open_store(PLAIN, timezone="Asia/Tokyo").settings
    assert (given["indexTimezone"].value, given["indexTimezone"].origin) == ("Asia/Tokyo", Origin.GIVEN)


def test_a_bare_log_takes_defaults_and_says_so(tmp_path: Path) -> None:
    shutil.copytree(PLAIN / "commitlog", tmp_path / "commitlog")
    settings = open_store(tmp_path).settings
    assert [setting.name for setting in settings.defaulted_sizes()] == list(INFERRED[1:])
    assert settings.consumequeue_file_size == 6_000_000
    assert settings.index_geometry.size_bytes == 420_000_040
    assert settings["brokerVersion"].origin is Origin.DEFAULT
    assert settings["enableConsumeQueueExt"].origin is Origin.DEFAULT


def test_properties_win_over_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=4096\nmessageIndexEnable=FALSE\nbrokerClusterName=c\nmystery=1\n"
    )
    settings = open_store(PLAIN, broker_conf=conf, properties=["mappedFileSizeCommitLog= 2048 "]).settings
    assert settings["mappedFileSizeCommitLog"].value == 2048
    assert settings.message_index_enable is False
    assert json_object(settings["messageIndexEnable"]) == {
        "value": False,
        "origin": "given",
    }


@pytest.mark.parametrize(("given", "effective"), [(200, 200), (201, 220), (1, 20), (2147483640, 2147483640)])
def test_queue_size_is_rounded_up(given: int, effective: int) -> None:
    settings = open_store(PLAIN, properties=[f"mappedFileSizeConsumeQueue={given}"]).settings
    assert settings["mappedFileSizeConsumeQueue"].value == given
    assert settings.consumequeue_file_size == effective


@pytest.mark.parametrize(("given", "other"), [("maxHashSlotNum=25", 40), ("maxIndexNum=40", 25)])
def test_one_number_of_the_index_decides_the_other(given: str, other: int) -> None:
    settings = open_store(PLAIN, properties=[given]).settings
    geometry = settings.index_geometry
    assert other in {geometry.slots, geometry.items}
    assert geometry.size_bytes == 940


def test_a_number_that_fits_no_file_leaves_the_default_of_the_other() -> None:
    settings = open_store(PLAIN, properties=["maxHashSlotNum=24"]).settings
    assert settings["maxHashSlotNum"].value == 24
    assert settings["maxIndexNum"].origin is Origin.DEFAULT


def test_an_unproven_geometry_is_the_default_ratio(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20220415132000123").write_bytes(build_index(10, 40, []))
    settings = open_store(tmp_path).settings
    assert (settings.index_geometry.slots, settings["maxIndexNum"].origin) == (10, Origin.DEFAULT)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mappedFileSizeCommitLog", "NAME=VALUE"),
        ("mappedFileSizeCommitlog=1", "did you mean mappedFileSizeCommitLog"),
        ("qqqqqq=1", "no broker has"),
        ("mappedFileSizeCommitLog=0", "greater than 0"),
        ("mappedFileSizeCommitLog=-5", "greater than 0"),
        ("mappedFileSizeCommitLog=2147483648", "32 bits"),
        ("mappedFileSizeCommitLog=" + "9" * 5000, "32 bits"),
        ("maxIndexNum=1e3", "32 bits"),
        ("maxIndexNum=", "32 bits"),
        ("messageDelayLevel=1s 2x", "list of delays"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        open_store(PLAIN, properties=[text])


def test_a_known_name_that_does_not_concern_the_store_is_taken() -> None:
    assert (
        open_store(PLAIN, properties=["listenPort=10911", "brokerRole=SLAVE"]).settings.commitlog_file_size
        == 8192
    )


def test_versions_and_zones_are_checked() -> None:
    assert open_store(PLAIN, broker_version="5.4.0").settings.release.name == "5.4.0"
    with pytest.raises(UsageError, match=r"4\.9, 5\.x"):
        open_store(PLAIN, broker_version="3")
    with pytest.raises(UsageError, match="Mars"):
        open_store(PLAIN, timezone="Mars/Base")


@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_blanks_that_make_the_broker_ignore_a_number_make_us_infer_it(tmp_path: Path, blank: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"mappedFileSizeCommitLog=1048576{blank}\n")
    assert open_store(PLAIN, broker_conf=conf).settings["mappedFileSizeCommitLog"].origin is Origin.INFERRED


def test_a_conf_that_cannot_be_used(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    for data, complaint in (
        (b"a=\\u12", "malformed"),
        (b"#" * 2_000_000, "1 MiB"),
        (b"maxIndexNum=x", "32 bits"),
    ):
        conf.write_bytes(data)
        with pytest.raises(UsageError, match=complaint):
            open_store(PLAIN, broker_conf=conf)
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=r"cannot be opened|directory"):
            open_store(PLAIN, broker_conf=path)


def test_settings_travel_settled() -> None:
    settings = open_store(fixture("batchcq-5.3.3")).settings
    copy = pickle.loads(pickle.dumps(settings))
    assert {one.name: json_object(one) for one in copy} == {one.name: json_object(one) for one in settings}
    assert copy.batch_topics == settings.batch_topics
    assert copy.delay_levels.delay_ms[18] == 7_200_000


def test_every_setting_of_ours_is_a_broker_s() -> None:
    assert set(CONCERNING) <= DEFINITIONS.keys() <= known_broker_properties()


def test_defaults_are_those_of_the_release() -> None:
    window = DEFINITIONS["commitLogRecoverMaxNum"]
    assert [window.is_known_to(release) for release in RELEASES.values()] == [False] * 3 + [True] * 3
    assert {window.default(release) for release in RELEASES.values()} == {10}
    gone = DEFINITIONS["haSlaveFallbehindMax"]
    assert (gone.is_known_to(OLDEST), gone.is_known_to(NEWEST), gone.until) == (True, False, "5.3.3")
    assert DEFINITIONS["combineCQPreferCQType"].default(NEWEST) == "default"
    assert DEFINITIONS["enableLmq"].default(NEWEST) is None
    for definition in DEFINITIONS.values():
        assert definition.defaults, definition.name


def test_a_broker_has_the_defaults_of_its_own_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of the release that wrote the store: the next default that changes shows."""
    steps = (("4.9.8", True), ("5.4.0", False))
    changed = DEFINITIONS["checkCRCOnRecover"]._replace(defaults=steps)
    monkeypatch.setitem(DEFINITIONS, "checkCRCOnRecover", changed)
    settings = open_store(PLAIN).settings
    assert settings["checkCRCOnRecover"].value is True
    found = {
        name: settings.of_broker(release)["checkCRCOnRecover"].value for name, release in RELEASES.items()
    }
    assert found == {name: name < "5.4.0" for name in RELEASES}
    given = open_store(PLAIN, properties=["checkCRCOnRecover=true"]).settings
    assert given.of_broker(NEWEST)["checkCRCOnRecover"].value is True


def test_of_a_file_a_broker_has_what_it_names_and_defaults(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeConsumeQueue=400\nnamesrvAddr=a:9876\nmapedFileSizeCommitLog=1\nxyz=1\n")
    for store in (
        opened := open_store(fixture("lmq-5.5.1"), broker_conf=conf),
        pickle.loads(pickle.dumps(opened)),
    ):
        settings = store.settings.of_broker(NEWEST)
        assert settings.consumequeue_file_size == 400
        assert settings.commitlog_file_size == 1 << 30
        assert (store.settings.enable_lmq, settings.enable_lmq) == (True, False)
        assert store.settings.commitlog_file_size == 8192
        assert store.settings.unknown_names == (
            f"{conf}: no broker reads mapedFileSizeCommitLog; did you mean mappedFileSizeCommitLog?",
            f"{conf}: no broker reads xyz",
        )


def test_defaults_that_are_quoted_are_those_of_the_table() -> None:
    window = {DEFINITIONS["commitLogRecoverMaxNum"].configured(release) for release in RELEASES.values()}
    assert window == {RECOVER_FILES}
    array = DEFINITIONS["maxCheckMessageReuseBufferSize"]
    kept = {
        release.records.kept_array: array.configured(release)
        for release in RELEASES.values()
        if array.is_known_to(release)
    }
    assert all(one == other for one, other in kept.items())
    package = Path(rmqtool.__file__).parent
    texts = [
        package.parent / "README.md",
        *(one for end in ("md", "py", "txt") for one in package.rglob(f"*.{end}")),
    ]
    quoted = 0
    for path in texts:
        text = " ".join(path.read_text("utf-8").replace('"', " ").split())
        for number in re.findall(r"newest (\d+) files", text):
            assert int(number) == RECOVER_FILES, path
            quoted += 1
        for name, value in re.findall(r"(\w+)`*\W{1,3}default:? `*(\w+)", text):
            if name in DEFINITIONS and value not in {"if", "of"}:
                assert value.lower() in {
                    str(DEFINITIONS[name].configured(one)).lower() for one in RELEASES.values()
                }, path
    assert quoted > 2


def test_settings_of_other_releases_are_taken_and_shown_only_if_given() -> None:
    settings = open_store(
        PLAIN, properties=["commitLogRecoverMaxNum=3", "timerWheelSnapshotFlush=true"]
    ).settings
    shown = {setting.name: setting.value for setting in settings}
    assert (shown["commitLogRecoverMaxNum"], shown["timerWheelSnapshotFlush"]) == (3, True)
    assert "checkCommitLogOffsetOnRecover" not in shown
    assert settings["checkCommitLogOffsetOnRecover"].value is False
    newest = {setting.name for setting in open_store(PLAIN, broker_version="5.5.1").settings}
    assert "checkCommitLogOffsetOnRecover" in newest


def test_a_value_that_the_broker_ignores_is_ignored_where_no_file_hangs_on_it(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("timerPrecisionMs=soon\nflushDiskType=ASYNC_FLUSH\nhaListenPort=1\n")
    settings = open_store(PLAIN, broker_conf=conf).settings
    assert settings["timerPrecisionMs"].origin is Origin.DEFAULT
    assert settings["haListenPort"].value == 1
    with pytest.raises(UsageError, match="32 bits"):
        open_store(PLAIN, properties=["timerPrecisionMs=soon"])


@pytest.mark.parametrize(
    "name", ["listenPort", "brokerId", "dLegerGroup", "useTLS", "tieredStoreFilePath", "rocketmqHome"]
)
def test_names_of_every_config_class_are_known(name: str) -> None:
    assert name in known_broker_properties()
