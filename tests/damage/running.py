"""What verify and rebuild say of a damaged copy."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.actions import foresight
from rmqtool.actions.verification import verify
from rmqtool.check import VerifyReport, VerifyRequest
from rmqtool.commands.verify.manifest import check_manifest, load_manifest, make_manifest
from rmqtool.engine import EngineOptions
from rmqtool.findings import FindingLog
from rmqtool.projection import json_object
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.edits import apply
from tests.damage.places import Places
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.findings import Findings
    from rmqtool.outcomes import Outcome
    from rmqtool.releases import Release
    from rmqtool.store import Store
    from tests.damage.cases import Case

ONE_THREAD = EngineOptions("local", jobs=1)
DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")


@cache
def places_of(store: str) -> Places:
    """Return the places of a fixture."""
    return Places(fixture(store))


def damaged_copy(case: Case, folder: Path) -> Path:
    """Copy a fixture and make the edits of a case; return the copy's root."""
    root = folder / "store"
    shutil.copytree(fixture(case.store), root)
    if case.manifest:
        lines = make_manifest(open_store(root), 1, Listener(), FindingLog())
        (folder / "manifest").write_bytes(b"".join(line.to_bytes() for line in lines))
    for edit in case.edits:
        apply(root, places_of(case.store), edit)
    return root


def verified(root: Path, properties: list[str] | None = None) -> VerifyReport:
    """Verify a store by its broker.conf."""
    store = open_store(root, broker_conf=_conf(root), properties=properties or ())
    return verify(VerifyRequest(store, engine=ONE_THREAD), Listener())


def with_manifest(root: Path, report: VerifyReport) -> VerifyReport:
    """Return a report with what differs from the manifest beside the store."""
    manifest = root.parent / "manifest"
    found = check_manifest(open_store(root), manifest, load_manifest(manifest), 1, Listener())
    findings = FindingLog.of(report.findings)
    findings.extend(found)
    return replace(report, findings=findings)


@contextmanager
def foreseen_once() -> Iterator[None]:
    """Compute outcomes once for all commands with equal findings: the store must not change meanwhile."""
    known: dict[object, tuple[Outcome, ...]] = {}
    foresee = foresight.foresee

    def of_store(
        store: Store, release: Release, findings: Findings, *, is_suspect: bool = False
    ) -> tuple[Outcome, ...]:
        said = json.dumps([json_object(finding) for finding in findings])
        key = store.base, release.name, said, is_suspect
        if key not in known:
            known[key] = foresee(store, release, findings, is_suspect=is_suspect)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foresight, "foresee", of_store)
        yield


def codes(report: VerifyReport) -> set[str]:
    """Return the codes of a report."""
    return set(report.findings.counts)


def first_of(report: VerifyReport, code: str, places: Places) -> dict[str, Any]:
    """Return the first finding of a code as JSON, index files by their number, and how many there are."""
    finding = json_object(next(one for one in report.findings if one.code.code == code))
    file = finding["file"]
    numbered = places.ordinal(file) if isinstance(file, str) else None
    return {**finding, "file": numbered, "count": report.findings.counts[code]}


def install_rebuilt(root: Path, properties: list[str]) -> RebuildReport:
    """Rebuild the derived files from the log and put them in the place of those that are there."""
    conf = _conf(root)
    with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
        out = Path(scratch) / "out"
        report = rebuild_store(root, conf, out, engine=ONE_THREAD, properties=tuple(properties))
        for name in DERIVED:
            _remove(root / name)
            if (out / name).exists():
                (out / name).rename(root / name)
    return report


def rebuild_differences(root: Path, properties: list[str]) -> list[str]:
    """Return what another rebuild would change."""
    report = rebuild_store(
        root, _conf(root), None, engine=ONE_THREAD, compare=True, properties=tuple(properties)
    )
    return [f"{one.file}: {one.message}" for one in report.differences]


def _conf(root: Path) -> Path | None:
    conf = root / "broker.conf"
    return conf if conf.is_file() else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
