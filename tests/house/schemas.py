"""The published JSON Schemas; ``python -m tests.house.schemas`` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from rmqtool.report.schemas import NAMES, schema

SCHEMAS = Path(__file__).parents[2] / "rmqtool" / "docs" / "schemas"


def schema_files() -> dict[str, str]:
    """Return the text of every file by its name."""
    return {f"{name}.json": json.dumps(schema(name), indent=1) + "\n" for name in NAMES}


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for old in SCHEMAS.iterdir():
        old.unlink()
    for name, text in schema_files().items():
        (SCHEMAS / name).write_text(text)
