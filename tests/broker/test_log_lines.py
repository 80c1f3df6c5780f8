"""Lines that ``explain`` knows are those of the released jars, and of brokers on damaged stores."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from rmqtool.commands.explain import explained_lines
from rmqtool.findings.log_lines import LOG_LINES
from tests.broker import jvm
from tests.broker.whole_broker import around
from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.runs import Run

pytestmark = pytest.mark.broker

_TEXT, _LONG = 1, (5, 6)
_SIZES = dict.fromkeys((7, 8, 16, 19, 20), 3) | {15: 4} | dict.fromkeys(_LONG, 9)
_JARS = ("rocketmq-store-", "rocketmq-broker-", "rocketmq-client-")
_PUT_TOGETHER = {
    "cleaning-fails": "service has exception",
    "load-failed": "load commit log",
    "end-of-log": "found a illegal magic code 0x",
    "earliest-time": "request pos invalid, request pos:",
    "recovery-walk": "recover physics file end,",
}
"""Kinds whose text is put together at run time, by a part of it that is a constant."""
_LOGBACK = """\
<configuration>
  <appender name="F" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d{{yyy-MM-dd HH:mm:ss,GMT+8}} %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="F"/></root>
</configuration>
"""


def _constants(data: bytes) -> Iterator[str]:
    """Yield the texts of a class's pool of constants (JVMS 4.4)."""
    count, place, number = struct.unpack_from(">H", data, 8)[0], 10, 1
    while number < count:
        tag = data[place]
        if tag == _TEXT:
            length = struct.unpack_from(">H", data, place + 1)[0]
            yield data[place + 3 : place + 3 + length].decode("utf-8", "replace")
            place += 3 + length
        else:
            place += _SIZES.get(tag, 5)
        number += 2 if tag in _LONG else 1


def _texts(version: jvm.Version) -> str:
    """Return all texts of a release's store, broker and client, one a line, blanks folded."""
    jars = [*jvm.whole_jars(version, around(version)).iterdir(), *(jvm.build(version) / "lib").iterdir()]
    found = set[str]()
    for jar in jars:
        if jar.name.startswith(_JARS):
            with ZipFile(jar) as archive:
                classes = (name for name in archive.namelist() if name.endswith(".class"))
                found.update(*(_constants(archive.read(name)) for name in classes))
    return re.sub(r"[ \t]+", " ", "\n".join(found))


def _forms() -> dict[str, list[str]]:
    """Return the forms of each kind of lines, as the table has them."""
    blocks = (Path(jvm.SOURCES).parents[1] / "rmqtool/findings/log_lines.txt").read_text().split("\n\n")[1:]
    return {block.split()[0]: re.findall(r"^line: (.*)$", block, re.MULTILINE) for block in blocks}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_release_has_the_texts_of_its_lines(version: jvm.Version) -> None:
    """Of each kind that a release is said to write, one form's longest fixed text is in its jars."""
    texts = _texts(version)
    release = tuple(map(int, version.split(".")))
    for name, forms in _forms().items():
        row = LOG_LINES[name]
        first, last = (tuple(map(int, one.split("."))) for one in (row.since, row.until or "99.0.0"))
        pieces = [max(re.split(r"\{=?[\w*]+\}", form), key=len).strip() for form in forms]
        if name in _PUT_TOGETHER:
            assert _PUT_TOGETHER[name] in texts
        else:
            assert any(piece in texts for piece in pieces) == (first <= release <= last), (name, pieces)


@pytest.mark.parametrize("version", [one for one in jvm.VERSIONS if one != "4.9.8"])
def test_lines_of_a_start_on_a_damaged_log(
    version: jvm.Version, run: Callable[..., Run], tmp_path: Path
) -> None:
    """A start that cuts the log says so; the store that it was started on shows what the lines are about."""
    name = f"plain-{version}" if (STORES / f"plain-{version}").is_dir() else "plain-5.3.3"
    evidence, store, log = tmp_path / "evidence", tmp_path / "store", tmp_path / "store.log"
    shutil.copytree(STORES / name, evidence)
    last = sorted((evidence / "commitlog").iterdir())[-1]
    data = bytearray(last.read_bytes())
    data[200] ^= 1
    last.write_bytes(data)
    (evidence / "abort").touch()
    shutil.copytree(evidence, store)
    conf = tmp_path / "logback.xml"
    conf.write_text(_LOGBACK.format(file=log))
    options = (*jvm.SHORT_LIVED, f"-Drmq.logback.configurationFile={conf}")
    jvm.judge(version, "recover", store, store / "broker.conf", options=options)
    kinds = {line.name: line for line in explained_lines(log.read_text().splitlines())}
    assert {"body-crc", "recovery-walk"} <= kinds.keys()
    document = run("explain", log, evidence, "--format", "json", "-q").document
    (line,) = (one for one in document["lines"] if one["name"] == "body-crc")
    assert line["here"] == "bad"
    assert line["findings"]["CL-CRC"] == 1
    verified = run("verify", evidence, "--predict-recovery", "--format", "json", "-q").document
    assert document["next"] == verified["next"]
