"""The page as text: complete, bounded, and nothing from a store is markup."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.picture import Content, LogFile, LogPicture, Stretch
from rmqtool.commands.verify import Verdict
from rmqtool.report.charts import CUT, MISSING, Clock, shown, span, strip_of
from rmqtool.report.page import render_page
from tests.report.page import reports

if TYPE_CHECKING:
    from rmqtool.commands.report import StoreReport

LARGEST_PAGE = 300_000
VOID = {"meta"}
DRAWN = {"rect", "path"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "nav", "a"),
    *("h1", "h2", "h3", "p", "div", "span", "strong", "pre", "bdi", "ul", "li", "dl", "dt", "dd"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "g", "rect", "path", "text"),
}


class Page(HTMLParser):
    """What a page is made of, and that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {key for key, _ in attrs}
        self.links += [value or "" for key, value in attrs if key in {"href", "src"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def render(report: StoreReport) -> str:
    return render_page(report, Verdict(report.verification, predictions=report.predictions), UTC)


@pytest.mark.full
def test_ten_thousand_topics_fit() -> None:
    """With names that grow when they are escaped, a thousand files and findings of every code."""
    page = render(reports.report(topics=10_000, files=1_000, each=100))
    assert len(page.encode("utf-8", "backslashreplace")) <= LARGEST_PAGE
    assert "9,900 other topics" in page
    assert "and 9,970 more topics" in page


def test_nothing_from_the_store_is_markup() -> None:
    text = render(reports.report())
    page = Page(text)
    assert page.open == []
    assert page.tags <= ALLOWED
    assert {one for one in page.attributes if one.startswith("on") or one in {"style", "src"}} == set()
    assert all(link.startswith("#") for link in page.links)
    assert "<script" not in text
    assert "{{7*7}}" in page.text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert r"\x1b[2J\x00\u202egpj.exe" in page.text


def test_the_policy_lets_nothing_in_but_the_own_style() -> None:
    text = render(reports.report())
    policy = re.search('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    style = re.search("<style>(.*)</style>", text, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    expected = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy[1].replace("&#39;", "'") == expected
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_what_there_is_to_be_told() -> None:
    page = Page(render(reports.report()))
    for part in (
        "loses 6 more",
        "The next start cuts off 3 messages; 9 messages are lost from the log.",
        "last write before the crash",
        "the next start ends the log here",
        "3 messages have a store time outside of this period",
        "1.2.3",
        "setting79",
    ):
        assert part in page.text
    assert page.text.count("cp -a --sparse=always") == 1


def stretches(*kinds: tuple[Content, int, int]) -> tuple[Stretch, ...]:
    return tuple(Stretch(what, start, stop, 1, 5, 6) for what, start, stop in kinds)


def log(*files: LogFile) -> LogPicture:
    return LogPicture(files, files[-1].stop, reports.picture(1, 1).census)


def test_the_strip_shows_the_cut_and_files_that_are_not_there() -> None:
    picture = log(
        LogFile("commitlog/0", 0, 100, stretches((Content.RECORDS, 0, 90), (Content.FILE_END, 90, 100))),
        LogFile("commitlog/3", 300, 400, stretches((Content.RECORDS, 300, 400))),
    )
    strip = strip_of(picture, 350, Clock(UTC), [(310, 320)])
    drawn = [(bar.kind, bar.title.partition(",")[0]) for row in strip.rows for bar in row.bars]
    assert drawn == [
        ("records", "records: physical offsets 0 to 90"),
        ("blank", "BLANK"),
        (MISSING, "no file: physical offsets 100 to 300"),
        ("records", "records: physical offsets 300 to 310"),
        ("damaged", "damaged: physical offsets 310 to 320"),
        ("records", "records: physical offsets 320 to 350"),
        (CUT, "records that the next start cuts off: physical offsets 350 to 400"),
    ]
    assert [(row.label, len(row.bars)) for row in strip.rows] == [("0", 2), (f"{100:020d}", 1), ("3", 4)]
    assert strip.rows[1].bars[0].width == 1000
    assert [one[1:3] for one in strip.notable] == [(100, 300), (310, 320), (350, 400)]


@pytest.mark.parametrize("files", [1, 35, 37, 500, 5_000])
def test_the_strip_is_bounded_and_damage_is_seen(files: int) -> None:
    """One damaged byte among terabytes has a mark that can be seen."""
    size = 1 << 30
    hurt = files // 2
    made = []
    for number in range(files):
        start = number * size
        kinds = [(Content.RECORDS, start, start + size)]
        if number == hurt:
            kinds = [
                (Content.RECORDS, start, start + 10),
                (Content.DAMAGED, start + 10, start + 11),
                (Content.RECORDS, start + 11, start + size),
            ]
        made.append(LogFile(f"commitlog/{start:020d}", start, start + size, stretches(*kinds)))
    strip = strip_of(log(*made), None, Clock(UTC))
    assert len(strip.rows) <= 36
    assert sum(len(row.bars) for row in strip.rows) <= 500
    damaged = [bar for row in strip.rows for bar in row.bars if bar.kind == Content.DAMAGED]
    assert [bar.width >= 2 for bar in damaged] == [True]
    assert all(bar.x >= 0 and bar.width > 0 for row in strip.rows for bar in row.bars)


def test_words() -> None:
    assert [span(one) for one in (0, 999, 1_000, 61_000, 3_600_000, 90_061_000)] == [
        *("0 ms", "999 ms", "1 s", "1 min 1 s", "1 h", "1 d 1 h")
    ]
    assert len(shown("x" * 1000)) <= 80
    assert shown("a\\b\u202e") == r"a\\b\u202e"
    assert Clock(UTC)(1_000) == "1970-01-01 00:00:01Z"
    assert Clock(UTC)(1 << 62) == str(1 << 62)
