"""Makes skeletons with a known key, says what verify finds, and lists what must not be left."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rmqtool.commands.metadump import make_skeleton
from rmqtool.commands.metadump.records import frame_of
from rmqtool.commands.metadump.tree import new_parts
from rmqtool.commands.metadump.words import BROKER_WORDS, PROPERTY_NAMES
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.commands.metadump.disguise import Disguise
    from tests.runs import Run

    Runner = Callable[..., Run]

KEY = b"a key that tests know"
_PLACE = ("code", "severity", "position", "length", "queueId", "queueOffset", "physicalOffset")
_TOPIC_MEMBERS, _FILE_MEMBERS = {"topic"}, {"file", "deletedFiles", "ignoredIndexFiles"}
_TEXTS = {"store", "reason", "hazards", "message", "seconds"}
_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_SHORTEST = 4
_ZEROS = bytes(512)
_SHOWN = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_PREFIX = re.compile(rb"%(RETRY|DLQ|LMQ)%|rmq_sys_(REVIVE_LOG_)?")


def skeleton_of(root: Path, out: Path, conf: Path | None, properties: list[str]) -> Path:
    """Make a skeleton; return its root."""
    make_skeleton(open_store(root, broker_conf=conf, properties=properties), out, Listener(), KEY)
    return out


def told(run: Runner, root: Path, conf: Path | None, properties: list[str]) -> dict[str, Any]:
    """Return what ``verify --predict-recovery`` says of a store."""
    words = ["verify", root, "--predict-recovery", "--format", "json", "--max-findings", 100_000, "-q"]
    words += [] if conf is None else ["-c", conf]
    for text in properties:
        words += ["-p", text]
    document: dict[str, Any] = json.loads(run(*words).out)
    return document


def essence(document: dict[str, Any], disguise: Disguise | None) -> dict[str, Any]:
    """Return of a verdict what a skeleton shares with its store.

    Args:
        document: Of verify.
        disguise: Translates the store's names into the skeleton's; None where they are those.
    """
    findings = [
        [one[name] for name in _PLACE]
        + [_file(one["file"], disguise), _topic(one["topic"], disguise), one["root"] is None]
        for one in document["findings"]
    ]
    predictions = [_translated(one, disguise) for one in document.get("predictions", [])]
    return {
        "findings": sorted(findings, key=str),
        "counts": document["counts"],
        "result": document["result"],
        "exitStatus": document["exitStatus"],
        "examined": document["examined"],
        "predictions": predictions,
    }


def _translated(value: Any, disguise: Disguise | None, name: str = "") -> Any:  # noqa: ANN401 - JSON
    if name in _TEXTS:
        return None
    if isinstance(value, dict):
        return {key: _translated(one, disguise, key) for key, one in value.items()}
    if isinstance(value, list):
        found = [_translated(one, disguise, name) for one in value]
        return sorted(found, key=str)  # by topic, as a rule, and these have other names
    if name in _TOPIC_MEMBERS:
        return _topic(value, disguise)
    return _file(value, disguise) if name in _FILE_MEMBERS else value


def _topic(name: str | None, disguise: Disguise | None) -> str | None:
    return name if name is None or disguise is None else disguise.text(name)


def _file(name: str | None, disguise: Disguise | None) -> str | None:
    if name is None or disguise is None:
        return name
    return "/".join(new_parts(tuple(name.split("/")), disguise))


def secrets_of(root: Path) -> set[bytes]:
    """Return what was sent, by whom and to whom, of every record in a store's log."""
    return {
        one
        for file in sorted((root / "commitlog").rglob("*"))
        if file.is_file()
        for raw in _records(file.read_bytes())
        for one in _parts(raw)
        if len(one) >= _SHORTEST and _SHOWN.search(one) and any(one)
    }


def _records(data: bytes) -> Iterator[bytes]:
    for match in _MAGIC.finditer(data):
        at = match.start() - 4
        if at >= 0 and frame_of(data[at:]) is not None:
            yield data[at:]


def _parts(raw: bytes) -> Iterator[bytes]:
    frame = frame_of(raw)
    assert frame is not None
    body, topic = raw[frame.body : frame.body_stop], raw[frame.topic : frame.topic_stop]
    if not topic.startswith((b"RMQ_SYS_TRANS_OP", b"RMQ_SYS_ROCKSDB_TRANS_OP")):
        yield body
    yield from (raw[host] for host in frame.hosts)
    yield from _names(topic)
    for piece in raw[frame.properties : frame.stop].split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name not in PROPERTY_NAMES:
            yield name
        if name in {b"KEYS", b"TAGS", b"UNIQ_KEY", b"REAL_TOPIC", b"PGROUP", b"INNER_MULTI_DISPATCH"}:
            for one in re.split(rb"[ ,]", value):
                yield from _names(one)


def _names(name: bytes) -> Iterator[bytes]:
    rest = _PREFIX.sub(b"", name, count=1)
    if not BROKER_WORDS & {one.decode("utf-8", "replace") for one in (name, rest)}:
        yield rest


def left_in(root: Path, wanted: set[bytes]) -> list[bytes]:
    """Return which of some bytes stand in a file of a directory, or in the name of one."""
    places = sorted(root.rglob("*"))
    names = [str(one.relative_to(root)).encode("utf-8", "surrogateescape") for one in places]
    contents = [one.read_bytes().replace(_ZEROS, b"") for one in places if one.is_file()]
    whole = b"\n".join([*names, *contents])
    return [secret for secret in wanted if secret in whole]
