"""A real Chromium, that of the system, and pages that tell what happens in them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Browser = Any  # Playwright's, which is there in the tier only

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Heard:
    """What a page did.

    Attributes:
        page: Playwright's.
        console: what it wrote to the console, errors of scripts and of the policy included.
        requests: addresses that it asked for, its own first.
    """

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the browser once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install .[dev])")
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Heard]]:
    """Open a file in a page of its own; options are those of a browser's context."""
    contexts: list[AbstractContextManager[Any]] = []

    def open_page(path: Path, **options: object) -> Heard:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        heard = Heard(page)
        page.on("console", lambda message: heard.console.append(message.text))
        page.on("pageerror", lambda failure: heard.console.append(str(failure)))
        page.on("request", lambda request: heard.requests.append(request.url))
        page.goto(path.as_uri())
        return heard

    yield open_page
    for context in contexts:
        context.close()  # type: ignore[attr-defined]
