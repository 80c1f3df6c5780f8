"""The page of ``report`` in a real browser: asks for nothing, runs nothing, can be read and printed."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.verify import Verdict
from rmqtool.report.page import render_page
from tests.browser.picture import PICTURE, SIZE, night_report, picture_of
from tests.report.page import reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browser.conftest import Browser, Heard

    Visit = Callable[..., Heard]

pytestmark = pytest.mark.browser

SECTIONS = ["lost", "log", "time", "topics", "backlog", "gaps", "findings", "provenance"]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a damaged store."""
    return night_report(tmp_path_factory.mktemp("night"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which every name is hostile."""
    page = tmp_path_factory.mktemp("hostile") / "report.html"
    report = reports.report(topics=200, files=80)
    text = render_page(report, Verdict(report.verification, predictions=report.predictions), UTC)
    page.write_bytes(text.encode("utf-8", "backslashreplace"))
    return page


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_asks_for_nothing_and_nothing_is_wrong(
    visit: Visit, night: Path, hostile: Path, scheme: str, script: bool
) -> None:
    """Also with script switched off: there is none."""
    for path in (night, hostile):
        heard = visit(path, color_scheme=scheme, java_script_enabled=script)
        heard.page.wait_for_load_state("networkidle")
        assert heard.console == []
        assert heard.requests == [path.as_uri()]
        headings = heard.page.locator("h2")
        assert headings.count() == len(SECTIONS)
        assert all(headings.nth(at).is_visible() for at in range(len(SECTIONS)))


def test_hostile_names_are_text(visit: Visit, hostile: Path) -> None:
    """No element of theirs, no character that turns the reading, and what there is can be read."""
    page = visit(hostile).page
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.images.length") == 0
    names = "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes].map(at => at.name))"
    assert [name for name in page.evaluate(names) if name.startswith("on")] == []
    text = page.evaluate("document.documentElement.textContent")
    assert "<script>alert(1)</script>" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert page.evaluate("document.querySelectorAll('bdi').length") > 200


def test_the_policy_blocks_what_is_smuggled_in(visit: Visit, night: Path, tmp_path: Path) -> None:
    """Were an escape forgotten, nothing would run, be fetched or be styled."""
    injected = (
        "<script>window.smuggled = 1</script>"
        "<img src='http://127.0.0.1:9/x.png' onerror='window.smuggled = 2'>"
        "<style>body{opacity:0}</style><p id='styled' style='color:#010203'>x</p>"
        "<form action='http://127.0.0.1:9/'></form>"
    )
    path = tmp_path / "page.html"
    path.write_text(night.read_text().replace("<main>", f"<main>{injected}"))
    heard = visit(path)
    heard.page.wait_for_load_state("networkidle")
    assert heard.page.evaluate("window.smuggled") is None
    assert heard.page.evaluate("getComputedStyle(document.body).opacity") == "1"
    assert heard.page.evaluate("getComputedStyle(document.querySelector('#styled')).color") != "rgb(1, 2, 3)"
    assert sum("Content Security Policy" in one for one in heard.console) >= 4


def test_offsets_are_said_on_hover_without_script(visit: Visit, night: Path) -> None:
    page = visit(night, java_script_enabled=False).page
    bars = page.locator("#log svg rect title")
    titles = [bars.nth(at).text_content() for at in range(bars.count())]
    assert any(one.startswith("records: physical offsets 0 to 7877, 25 stored ") for one in titles)
    assert any(one.startswith("records that the next start cuts off: physical offsets ") for one in titles)
    columns = page.locator("#time svg rect title")
    assert columns.count() > 10


def test_links_lead_to_the_sections(visit: Visit, night: Path) -> None:
    page = visit(night).page
    targets = page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert targets == [f"#{one}" for one in SECTIONS]
    assert all(page.locator(f"section{one}").count() == 1 for one in targets)


@pytest.mark.parametrize("width", [360, 1100])
def test_no_sideways_scrolling(visit: Visit, night: Path, hostile: Path, width: int) -> None:
    for path in (night, hostile):
        page = visit(path, viewport={"width": width, "height": 800}).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_are_on_a_narrow_screen(visit: Visit, night: Path) -> None:
    """Times and names may need a swipe; columns of which nothing is known take no room."""
    beyond = "innerWidth < e.getBoundingClientRect().right"
    page = visit(night, viewport={"width": 400, "height": 900}).page
    assert page.evaluate(f"[...document.querySelectorAll('td.r')].filter(e => {beyond}).length") == 0


def test_dark_and_light_can_be_read(visit: Visit, night: Path) -> None:
    """The contrast of text and paper, as WCAG measures it, is at least 4.5."""
    for scheme in ("light", "dark"):
        page = visit(night, color_scheme=scheme).page
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for place in ("h2", "p", ".soft", "th", "dt"):
            ink = page.evaluate("place => getComputedStyle(document.querySelector(place)).color", place)
            assert _contrast(paper, ink) >= 4.5, (scheme, place)


def _contrast(one: str, other: str) -> float:
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_it_can_be_printed(visit: Visit, night: Path) -> None:
    """On white paper, all sections, some pages of PDF."""
    page = visit(night, color_scheme="dark").page
    data = page.pdf(format="A4")
    assert data.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 12
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert all(page.locator(f"#{one}").is_visible() for one in SECTIONS)


def test_the_picture_in_the_readme_is_small_and_of_this_page(browser: Browser, tmp_path: Path) -> None:
    taken = picture_of(browser, tmp_path)
    for data in (taken, PICTURE.read_bytes()):
        assert data.startswith(b"\x89PNG")
        size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        assert size == (SIZE["width"], SIZE["height"])
        assert len(data) < 150_000
