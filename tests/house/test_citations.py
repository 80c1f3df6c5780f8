"""What is cited of the broker's can be looked up, and `fixtures/make/compare_releases.py` finds it."""

from __future__ import annotations

import re

import pytest

from tests.house.citations import SOURCES, citations, cited

CLASS = re.compile(r"(?!.*_)[A-Z]\w*[a-z]\w*")
METHOD, CONSTANT = re.compile(r"<init>|[a-z][A-Za-z0-9]*"), re.compile(r"[A-Z][A-Z0-9_]+")


def test_every_citation_is_a_class_and_a_member_of_it() -> None:
    found = cited()
    assert ("IndexService", "buildIndex") in found
    odd = {
        f"{name}#{member} in {', '.join(files)}"
        for (name, member), files in found.items()
        if not CLASS.fullmatch(name) or not (METHOD.fullmatch(member) or CONSTANT.fullmatch(member))
    }
    assert odd == set()


def test_no_source_is_cited_in_another_form() -> None:
    other = re.compile(r"\b(?:[a-z]+\.)+[A-Z]\w+#|\b[A-Z]\w*[a-z]\w*(?:::|\$)\w*#?[a-z]|#…")
    odd = [
        f"{path.relative_to(SOURCES)}: {match[0]}"
        for path in SOURCES.rglob("*.py")
        for match in other.finditer(path.read_text("utf-8"))
    ]
    assert odd == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "(``CommitLog#recoverNormally``, ``#recoverAbnormally``)",
            [("CommitLog", "recoverNormally"), ("CommitLog", "recoverAbnormally")],
        ),
        ("``IndexFile#<init>``", [("IndexFile", "<init>")]),
        ("hash of topic#key, `#7` and `T#TagA`", []),
        ("``#put`` alone", [("", "put")]),
        ("nothing", []),
    ],
)
def test_citations_of_a_text(text: str, expected: list[tuple[str, str]]) -> None:
    assert citations(text) == expected
