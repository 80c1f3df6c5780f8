"""The real ``ConfigManager`` reads damaged settings as the doctor says, and what the doctor makes of them."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.doctor import CONFIG_KINDS, read_bytes
from rmqtool.doctor.choices import BrokerTakes
from rmqtool.doctor.diagnose import diagnose
from rmqtool.io import location_of
from rmqtool.store import open_store
from tests.broker import jvm
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.doctor.choices import ConfigDiagnosis

pytestmark = pytest.mark.broker

OFFSETS = CONFIG_KINDS["consumerOffset.json"]
FILE = "consumerOffset.json"
OLD = '{\n\t"offsetTable":{\n\t\t"TopicTest@readers":{0:12,1:9\n\t\t},\n\t\t"%RETRY%G@G":{0:3\n\t\t}\n\t}\n}'
NEW = '{"dataVersion":{"counter":7},"offsetTable":{"TopicTest@readers":{\n0:12,\n1:10\n},"Orders@Ü":{0:3}}}'
BEFORE = '{"offsetTable":{"TopicTest@readers":{0:10,1:8},"Orders@billing":{0:1}}}'
WHOLE = [NEW.encode(), OLD.encode(), bytes(9) + NEW.encode() + bytes(30), b"\xef\xbb\xbf" + NEW.encode()]
ODD = [b"", bytes(200), b" \n\t ", b"null", b"[]", b"{}", b'"x"', b"5", b"\x93\xfe\x01" * 30]
ODD += [b"<nil>", b'{"offsetTable":5}', b'{"offsetTable":{"T@G":{"x":5}}}', b'{"offsetTable":{"T@G":null}}']

Copies = tuple[bytes | None, bytes | None]
"""The file, and its ``.bak``."""


def cases() -> list[Copies]:
    """Every cut, everything odd, whole files; alone, beside a sound ``.bak``, and as the ``.bak``."""
    chance = random.Random(11)
    texts = [text.encode() for text in (OLD, NEW)]
    damaged = [data[:end] for data in texts for end in range(1, len(data))] + ODD + WHOLE
    damaged += [data[: (at := chance.randrange(len(data)))] + bytes(len(data) - at) for data in texts * 20]
    damaged += [NEW.encode() + junk for junk in (b"x", b"}", b'{"a":1}', OLD.encode()[-20:])]
    found: list[Copies] = [(data, BEFORE.encode()) for data in damaged]
    found += [(data, None) for data in damaged]
    found += [(None, data) for data in damaged]
    return found + [(chance.choice(damaged), chance.choice(damaged)) for _ in range(200)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path_factory.mktemp("configs") / "store")


def lay_out(folder: Path, copies: Copies) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, data in zip(("", ".bak"), copies, strict=True):
        path = folder / f"{FILE}{suffix}"
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)


def diagnosis(root: Path, copies: Copies, version: str) -> ConfigDiagnosis | None:
    lay_out(root / "config", copies)
    found = diagnose(open_store(root, broker_version=version))
    return next((one for one in found if one.file == f"config/{FILE}"), None)


def real(version: jvm.Version, folder: Path, all_copies: list[Copies]) -> list[jvm.Row]:
    """Let a broker's own class load folders with these copies."""
    names = [folder / str(number) for number in range(len(all_copies))]
    for name, copies in zip(names, all_copies, strict=True):
        lay_out(name, copies)
    listed = folder / "folders"
    listed.write_text("".join(f"{name}\n" for name in names))
    return jvm.run(version, "Configs", listed)


def table_of(data: bytes | None) -> dict[str, dict[str, int]]:
    document = read_bytes(data or b"", OFFSETS)[1]
    table: dict[str, dict[str, int]] = document.get("offsetTable", {})
    return {name: {key: int(value) for key, value in one.items()} for name, one in table.items()}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_broker_takes_what_the_doctor_says(version: jvm.Version, root: Path, tmp_path: Path) -> None:
    everything = cases()
    wrong = []
    for copies, row in zip(everything, real(version, tmp_path, everything), strict=True):
        found = diagnosis(root, copies, version)
        takes = BrokerTakes.NOTHING if found is None else found.broker
        taken = {BrokerTakes.FILE: copies[0], BrokerTakes.BACKUP: copies[1]}.get(takes)
        said = takes is not BrokerTakes.REFUSES, table_of(taken)
        if said != (row["loads"], row["table"]):
            wrong.append((copies, takes, row))
    assert wrong == []
    assert len(everything) > 900


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_broker_reads_what_the_doctor_puts_together(
    version: jvm.Version, root: Path, tmp_path: Path
) -> None:
    written: list[Copies] = []
    wanted = []
    for end in range(20, len(NEW.encode()), 3):
        found = diagnosis(root, (NEW.encode()[:end], BEFORE.encode()), version)
        assert found is not None
        for choice in found.choices:
            written.append((choice.data(location_of(root)), None))
            wanted.append(json.loads(json.dumps(choice.document["offsetTable"])))
    rows = real(version, tmp_path, written)
    assert [row["table"] for row in rows] == wanted
    assert all(row["loads"] for row in rows)
