"""The jobs of the comparison: commands over every fixture and every case of damage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import rmqtool
from tests.damage.cases import load_cases, one_of_each_code
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import NEWEST_ROOTS, STORE_ROOTS, fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Line = list[str]

_JSON = ("--format", "json")
_NDJSON = ("--format", "ndjson")
_LOCAL = ("--engine", "local")
_SCHEMAS = (
    "verify",
    "rebuild",
    "salvage",
    "carve",
    "query",
    "topics",
    "offsets",
    "diff",
    "info",
    "prediction",
)


@dataclass(frozen=True)
class Job:
    """Command lines that run in one folder.

    Attributes:
        name: of the store and of what is done.
        lines: words of each command after ``rmqtool``.
        store: the root that they name.
        copy: whether they run on a copy, ``store`` in their folder, because they change it.
    """

    name: str
    lines: list[Line]
    store: str = ""
    copy: bool = field(default=False)


def all_jobs(stores: Path, *, quick: bool) -> list[Job]:
    """Copy and damage the stores into a folder and return the jobs over them.

    Args:
        stores: Where they go; must not exist.
        quick: Only the newest broker's stores, and one case of each code.
    """
    jobs = [Job(f"schema {name}", [["schema", name]]) for name in ("", *_SCHEMAS)]
    jobs[0] = Job("schema", [["schema"]])
    for root in NEWEST_ROOTS if quick else STORE_ROOTS:
        shutil.copytree(root, stores / root.name, symlinks=True)
        jobs += fixture_jobs(root.name, stores / root.name)
    for number, case in enumerate(one_of_each_code() if quick else load_cases()):
        name = f"{case.code}-{number}"
        (stores / name).mkdir()
        root = damaged_copy(case, stores / name)
        settings = [word for setting in case.properties for word in ("-p", setting)]
        manifest = stores / name / "manifest"
        jobs += damage_jobs(name, root, settings, manifest if case.manifest else None)
    return jobs


def fixture_jobs(name: str, root: Path) -> Iterator[Job]:
    """Yield what is done with a store as a broker left it."""
    conf = ["-c", str(root / "broker.conf")]
    yield from _common_jobs(name, root, conf)
    lines = {
        "dump": [
            "dump",
            *_NDJSON,
            "--slots",
            "--chains",
            "--body",
            "base64",
            "--unpack-batches",
            "--decompress",
        ],
        "dump csv": ["dump", "--format", "csv", "--type", "commitlog"],
        "dump hex": ["dump", "--hex", "--limit", "200"],
        "dump config": ["dump", *_NDJSON, "--type", "config"],
        "dump replay": ["dump", "--format", "replay"],
        "info csv": ["info", "--format", "csv"],
        "queues": ["topics", "--format", "csv", "--queues", "--sort", "name"],
        "verify csv": [
            "verify",
            "--format",
            "csv",
            "--report",
            "junit:junit.xml",
            "--report",
            "sarif:sarif.json",
        ],
        "verify 0": ["verify", *_JSON, "--level", "0"],
        "verify 2": ["verify", *_JSON, "--level", "2"],
        "manifest": ["verify", *_JSON, "--level", "1", "--manifest", "write:manifest"],
        "rebuild-index": ["rebuild-index", *_JSON, *_LOCAL, "--out", "out"],
        "compare": [
            "rebuild",
            *_JSON,
            *_LOCAL,
            "--compare",
            "--until-offset",
            "20000",
            "--generations",
            "live",
        ],
        "salvage cut": ["salvage", *_JSON, "--out", "out", "--holes", "cut", "--replay", "replay.ndjson"],
    }
    yield from (
        Job(f"{name}: {kind}", [[*words, str(root), *conf]], str(root)) for kind, words in lines.items()
    )
    exported = ["--format", "ndjson", "--engine", "local", "--out", "out"]
    yield Job(
        f"{name}: export", [["export", str(root), *conf, *exported, "--partition-by", "topic"]], str(root)
    )
    arrow = ["--format", "arrow", "--engine", "local", "--out", "out.arrow"]
    yield Job(f"{name}: export arrow", [["export", str(root), *conf, *arrow]], str(root))
    log = [str(path) for path in sorted((root / "commitlog").iterdir()) if path.is_file()]
    yield Job(f"{name}: carve", [["carve", *log, *_JSON, "--out", "out"]], str(root))
    other = next(one for one in STORE_ROOTS if one.name != name)
    yield Job(f"{name}: diff", [["diff", str(root), str(other), *_JSON]], str(root))
    yield Job(f"{name}: query", list(_queries(root, conf)), str(root))


def damage_jobs(name: str, root: Path, settings: Line, manifest: Path | None) -> Iterator[Job]:
    """Yield what is done with a damaged store."""
    conf = ["-c", str(root / "broker.conf")] if (root / "broker.conf").is_file() else []
    yield from _common_jobs(name, root, [*conf, *settings])
    dumped = ["dump", str(root), *conf, *settings, *_NDJSON, "--body", "base64"]
    yield Job(f"{name}: dump", [dumped], str(root))
    if manifest is not None:
        checked = ["verify", str(root), *conf, *settings, *_JSON, "--manifest", f"check:{manifest}"]
        yield Job(f"{name}: manifest", [checked], str(root))
    store = fixture(next(case.store for case in load_cases() if name.startswith(f"{case.code}-")))
    yield Job(f"{name}: diff", [["diff", str(root), str(store), *_JSON]], str(root))
    yield Job(
        f"{name}: export", [["export", str(root), *conf, *_NDJSON, *_LOCAL, "--out", "out.ndjson"]], str(root)
    )


def _common_jobs(name: str, root: Path, conf: Line) -> Iterator[Job]:
    store = str(root)
    lost = ["--predict-recovery", "all", "--lost", "lost.ndjson"]
    rebuilt = ["rebuild", store, *conf, *_JSON, *_LOCAL, "--out", "out", "--compare", "--lost", "lost.ndjson"]
    lines: dict[str, list[Line]] = {
        "info": [["info", store, *conf, *_JSON, "-v"]],
        "verify 1": [["verify", store, *conf, *_JSON, "--level", "1"]],
        "verify 3": [["verify", store, *conf, *_JSON, "--max-findings", "1000"]],
        "verify lines": [["verify", store, *conf, *_NDJSON, *lost]],
        "verify text": [["verify", store, *conf, "--max-findings", "2", "--predict-recovery"]],
        "topics": [["topics", store, *conf, *_JSON]],
        "offsets": [["offsets", store, *conf, *_JSON]],
        "rebuild": [rebuilt],
        "salvage": [["salvage", store, *conf, *_JSON, "--out", "out", "--keep-damaged"]],
        "salvage plan": [["salvage", store, *conf, *_JSON, "--plan", "plan.json", "--holes", "repeat"]],
        "report": [["report", store, *conf, "-o", "page.html"]],
        "scan": [
            ["query", store, *conf, *_JSON, "--scan", "--begin", "0", "--end", "9999999999999", "-m", "0"]
        ],
    }
    for kind, all_words in lines.items():
        yield Job(f"{name}: {kind}", all_words, store)
    settings = conf[2:] if conf[:1] == ["-c"] else conf  # of the copy, by its own file
    mended = ["repair", "store", *settings, *_LOCAL]
    undone = [[*mended, "--plan", *_JSON], [*mended, "-y"], ["verify", "store", *settings, *_JSON]]
    yield Job(f"{name}: repair", undone, store, copy=True)
    yield Job(f"{name}: undo", [[*mended, "-y"], [*mended, "--undo", "-y"]], store, copy=True)


def _queries(root: Path, conf: Line) -> Iterator[Line]:
    """Yield every way to ask for some messages of a store, and for none."""
    store = str(root)
    with rmqtool.open(root, broker_conf=root / "broker.conf") as opened:
        messages = list(opened.messages())
    for message in messages[:: max(len(messages) // 3, 1)]:
        topic = ["--topic", message.topic]
        phy = str(message.physical_offset)
        begin, end = str(message.store_timestamp_ms - 1000), str(message.store_timestamp_ms + 1000)
        queue = [*topic, "--queue", str(message.queue_id)]
        asked: list[Line] = [
            ["--offset", phy, "--body", "hex"],
            [*queue, "--queue-offset", str(message.queue_offset)],
            [*topic, "--begin", begin, "--end", end],
            [*queue, "--begin", begin, "--scan"],
            ["--offset", str(message.physical_offset + 1), "--explain"],
        ]
        asked += [[*topic, "--tag", message.tags]] if message.tags else []
        for key in message.keys[:1]:
            asked += [
                [*topic, "--key", key, "--explain"],
                ["--key", key, "--collisions"],
                ["--key", key, "--scan"],
            ]
        if message.uniq_key:
            unique = message.uniq_key
            asked += [
                ["--unique-key", unique],
                ["--msg-id", unique],
                [*topic, "--unique-key", unique, "--explain"],
            ]
        yield from (["query", store, *conf, *_JSON, *words] for words in asked)
    yield ["query", store, *conf, *_JSON, "--topic", "NoSuchTopic", "--key", "none", "--explain"]
