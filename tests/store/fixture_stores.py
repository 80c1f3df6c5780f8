"""The small stores made by real brokers, as test parameters."""

from __future__ import annotations

from pathlib import Path

STORES = Path(__file__).parents[2] / "fixtures" / "stores"
STORE_ROOTS = (
    sorted(path for path in STORES.iterdir() if (path / "broker.conf").is_file()) if STORES.is_dir() else []
)

NEWEST = "5.5.1"
"""The newest broker that made some of them."""
NEWEST_ROOTS = [root for root in STORE_ROOTS if root.name.endswith(f"-{NEWEST}")]


def fixture(name: str) -> Path:
    """Return the root of one store."""
    return STORES / name
