"""The list of settings that is shipped is what the released brokers have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import UsageError
from rmqtool.releases import release_named
from rmqtool.store.broker_conf import all_definitions, parse_java_properties
from rmqtool.store.conf_values import taken
from tests.broker import jvm
from tests.broker.brokers import BROKERS
from tests.broker.scripts import script

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.broker
def test_the_shipped_list_is_the_brokers() -> None:
    settings = script("settings")
    shipped = settings.LIST.read_text("ascii").splitlines()
    assert settings.store_settings(tuple(BROKERS)).splitlines() == shipped
    names = settings.NAMES.read_text("ascii").splitlines()
    bare = [line.partition("\t")[0] for line in names]
    assert settings.with_types(bare, tuple(BROKERS)).splitlines() == names


TEXTS = {
    "int": [
        "7",
        "-7",
        "0",
        "+5",
        "07",
        "2147483647",
        "2147483648",
        "5 ",
        " 6",
        "1_0",
        "x",
        "",
        "96",
        "750",
        "6000001",
    ],
    "long": ["7", "-1", "9223372036854775807", "9223372036854775808", "5 ", "1.5", "", "x"],
    "boolean": ["true", "TRUE", "false", "yes", "1", "", "true ", " true"],
    "double": ["0.5", "-1", "x", "1e3", "2 ", ""],
    "String": ["abc", "", "SLAVE", "SYNC_MASTER", "slave", "SYNC_FLUSH", "sync_flush ", "POP", "a b ", "ä"],
}
IN_PLACE = {"diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio", "listenPort", "haListenPort"}
"""Turned where they are used (tests/broker/test_retention.py, BrokerStartup), not by their getters."""
BY_NUMBER = {"metricsExporterType"}
"""Words and numbers of a type of its own, by several setters: whose turn comes last is no rule."""


def java_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


@pytest.mark.broker
@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_values_count_as_the_broker_reads_them(version: jvm.Version, tmp_path: Path) -> None:
    """Every setting with every text of its type: what the real objects hold after ``properties2Object``."""
    release = release_named(version)
    known = {
        name: definition
        for name, definition in all_definitions().items()
        if definition.is_known_to(release) and name not in IN_PLACE | BY_NUMBER
    }
    files: list[Path] = []
    for number in range(max(map(len, TEXTS.values()))):
        texts = {name: (of := TEXTS[one.kind])[number % len(of)] for name, one in known.items()}
        files.append(tmp_path / f"{number}.conf")
        lines = [f"{name} = {text}\n" for name, text in texts.items()]
        files[-1].write_bytes("".join(lines).encode("iso-8859-1"))
    listed = tmp_path / "files"
    listed.write_text("".join(f"{file}\n" for file in files))
    compared, wrong = 0, []
    for file, row in zip(files, jvm.run(version, "Conf", listed), strict=True):
        for name, text in parse_java_properties(file.read_bytes()).items():
            if name not in row["read"]:
                continue
            result = taken(known[name], text, release)
            compared += 1
            is_of_the_machine = not result.is_read and result.value is None
            if not is_of_the_machine and java_text(result.value) != row["read"][name]:
                wrong.append((name, text, result, row["read"][name]))
    assert wrong == []
    assert compared > 15 * 170


@pytest.mark.broker
@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_files_are_split_as_java_does(version: jvm.Version, tmp_path: Path) -> None:
    """Escapes, continued lines, comments, ends of lines, names that come twice, and what Java refuses."""
    contents = [
        b"brokerName : a\\tb\r\nbrokerClusterName=\\u00e4\\\r\n   c\r#brokerName=no\n!x\n",
        b"brokerName=first\nbrokerName=second\n",
        b"brokerName\nbrokerClusterName =\n",
        b"brokerName=\\u00zz\n",
        b"brokerName=\xff\xfe\x00x\n",
        b"",
        bytes(range(256)),
        b"broker\\:Name=x\nbrokerName   =   y=z\nbrokerIP1=\\",
    ]
    files = [tmp_path / f"{number}.conf" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    listed = tmp_path / "files"
    listed.write_text("".join(f"{file}\n" for file in files))
    for content, row in zip(contents, jvm.run(version, "Conf", listed), strict=True):
        if "refused" in row:
            with pytest.raises(UsageError):
                parse_java_properties(content)
            continue
        release = release_named(version)
        values = parse_java_properties(content)
        for name in ("brokerName", "brokerClusterName", "brokerIP1"):
            if name in values:
                assert row["read"][name] == taken(all_definitions()[name], values[name], release).value
