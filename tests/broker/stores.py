"""The fixture stores, and copies of them for a broker to open."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tests.broker.jvm import Version

STORES = Path(__file__).resolve().parents[2] / "fixtures" / "stores"
LEDGERS = STORES.parent / "dledger"
ENTRY_UNIT_BYTES = 32
ENTRY_INDEX_BYTES = 5 * 1024 * 1024 * ENTRY_UNIT_BYTES
DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
# What the fixture keeps beside the store's own files.
_PAPERS = ("broker.conf", "recipe.toml", "SHA256SUMS", "reference")


@dataclass(frozen=True)
class FixtureStore:
    """A store made by a real broker; `root` is a store root."""

    root: Path

    @property
    def name(self) -> str:
        """Directory name, `<what>-<version>`."""
        return self.root.name

    @property
    def version(self) -> Version:
        """Version of the broker that made it."""
        return cast("Version", self.recipe["version"])

    @property
    def conf(self) -> Path:
        """The broker's non-default settings, a Java properties file."""
        return self.root / "broker.conf"

    @property
    def timezone(self) -> str:
        """Time zone of the broker that named the index files."""
        return cast("str", self.recipe["timezone"])

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """Content of `recipe.toml`."""
        return tomllib.loads((self.root / "recipe.toml").read_text("utf-8"))

    @property
    def expected(self) -> Path:
        """Where the derived files lie that this broker builds from the log alone."""
        return self.root if self.recipe["reference"] == "self" else self.root / "reference"

    def copy_to(self, target: Path) -> Path:
        """Copy the store's own files, as the broker left them; return the new root."""
        shutil.copytree(self.root, target, ignore=shutil.ignore_patterns(*_PAPERS))
        return target

    def copy_log_to(self, target: Path) -> Path:
        """Copy the store as far as a rebuild from the log alone may see it; return the new root."""
        return strip_derived(self.copy_to(target))


def fixture_stores() -> list[FixtureStore]:
    """List all fixture stores by name."""
    return [FixtureStore(file.parent) for file in sorted(STORES.glob("*/recipe.toml"))]


def ledger_stores() -> list[FixtureStore]:
    """List the fixture stores whose log is one of DLedger."""
    return [FixtureStore(file.parent) for file in sorted(LEDGERS.glob("*/recipe.toml"))]


def cut_entry_index(root: Path) -> bool:
    """Cut the index of DLedger's entries after its last unit; whether there is one.

    Its files have 160 MiB, sparse, no setting of a broker makes them smaller, and a start writes them anew.
    """
    files = list(root.glob("dledger-*/index/*"))
    for file in files:
        with file.open("rb+") as index:
            used = len(index.read(1 << 20).rstrip(b"\0"))
            index.truncate(-(-used // ENTRY_UNIT_BYTES) * ENTRY_UNIT_BYTES)
    return bool(files)


def whole_entry_index(root: Path) -> Path:
    """Give the index of DLedger's entries the size that its broker wants; return the root."""
    for file in root.glob("dledger-*/index/*"):
        with file.open("rb+") as index:
            index.truncate(ENTRY_INDEX_BYTES)
    return root


def fixture_store(name: str) -> FixtureStore:
    """Get one fixture store by its directory name."""
    return FixtureStore(STORES / name)


def strip_derived(root: Path) -> Path:
    """Remove derived directories, and `abort` so that the next start rebuilds them all; return the root."""
    for name in DERIVED:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "abort").unlink(missing_ok=True)
    return root
