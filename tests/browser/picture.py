"""The picture of a report in the README; ``python -m tests.browser.picture`` takes it anew."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.cli import main
from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from typing import Any

PICTURE = Path(__file__).parents[2] / "rmqtool" / "docs" / "report.png"
SIZE = {"width": 880, "height": 880}


def night_report(folder: Path) -> Path:
    """Report on a store with a flipped byte in a late record, and an abort."""
    store = folder / "night"
    shutil.copytree(STORES / "plain-5.3.3", store)
    log = store / "commitlog" / "00000000000000049152"
    data = bytearray(log.read_bytes())
    data[3000] ^= 1
    log.write_bytes(data)
    (store / "abort").touch()
    page = folder / "report.html"
    if main(["report", str(store), "-o", str(page), "-q", "--timezone", "UTC"]) != 5:
        raise AssertionError("the log is damaged")
    return page


def picture_of(browser: Any, folder: Path) -> bytes:  # noqa: ANN401 - Playwright's, in the tier only
    """Return the upper part of a report as PNG; the store is shown as one of a server."""
    path = night_report(folder)
    path.write_text(path.read_text().replace(str(folder), "/data/rocketmq"))
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    page.goto(path.as_uri())
    data = bytes(page.screenshot(clip={"x": 0, "y": 0} | SIZE))
    page.close()
    return data


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running, tempfile.TemporaryDirectory() as scratch:
        started = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        PICTURE.write_bytes(picture_of(started, Path(scratch)))
        started.close()
