"""The small stores made by real brokers, as test parameters."""

from __future__ import annotations

from pathlib import Path

STORES = Path(__file__).parents[2] / "fixtures" / "stores"
STORE_ROOTS = (
    sorted(path for path in STORES.iterdir() if (path / "broker.conf").is_file()) if STORES.is_dir() else []
)


def fixture(name: str) -> Path:
    """Return the root of one store."""
    return STORES / name
