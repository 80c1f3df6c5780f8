"""Words that stay out of texts for users, and first words that stay out of module docstrings."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from rmqtool.caches import packaged_text
from tests.house.readme import DOCS, README, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BETTER = {
    r"told|tells|telling": "reports, shows, says",
    r"asked for|asks? (?:for|of|the)\b(?! owners)": "requested, requires",
    r"anew": "again; rebuilds",
    r"given back|gives? (?:it|them|records?) back": "recovered, kept, restored",
    r"held against|holds? \w+ (?:\w+ )?against": "compared with",
    r"(?:is|are) gone|gone with": "is missing, was deleted",
    r"way out": "Fix:",
    r"speaks? (?:of|against)": "contradicts",
    r"looked at|looks? at": "examined, reads",
    r"behind the": "after the",
    r"so far as|amid|whence|thereof|whoever|lest": "two sentences",
    r"for who|who stands|of who\b": "a noun: the user, the operator",
    r"true records?": "intact record",
    r"beliefs?|believed|silences|papers|thrift": "plausible, idle periods, sidecar files",
    r"is no (?:store|record|number|JSON|file|directory|journal|time|message|map|name|engine)": "is not a",
    r"healed|heals|mends?|mended": "repairs, fills",
    r"what is (?:there|there now|said|not there)": "a noun: the present files",
}
"""Expressions for words of our own, by what to say instead; each stands for a whole word."""

QUESTIONS_AS_FIRST_WORD = 0
"""Module docstrings that begin with What, Which, How, Where or Who; lower it, never raise it."""

PACKAGE = ROOT / "rmqtool"
_OWN = re.compile("|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(BETTER)), re.IGNORECASE)
_CODE = re.compile(r"```.*?```|`[^`]+`|<!-- (\w+) -->.*?<!-- end -->|\]\([^)]*\)", re.DOTALL)
_QUESTION = re.compile(r"(?:What|Which|How|Where|Who)\b")
_WORDS_OF_A_SENTENCE = 3


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the modules of the package."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def own_words(text: str) -> list[str]:
    """Return the words of our own in a text, each with what to say instead."""
    better = list(BETTER.values())
    return [f"{found[0]!r} (say: {better[int(str(found.lastgroup)[1:])]})" for found in _OWN.finditer(text)]


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string that a user may read: three words or more, and no docstring."""
    hidden = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [one for one in node.values if isinstance(one, ast.Constant)]
            hidden |= {id(one) for one in ast.walk(node) if one is not node}
            text = " … ".join(str(one.value) for one in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            text = node.value
        else:
            continue
        if len(text.split()) >= _WORDS_OF_A_SENTENCE:
            yield node.lineno, text


@pytest.mark.parametrize("page", [README, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_pages_use_plain_words(page: Path) -> None:
    """What is generated of a page comes from help texts and the catalogue, which the next test reads."""
    assert own_words(_CODE.sub("", page.read_text())) == []


def test_messages_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path, tree in trees().items()
        for line, text in sentences(tree)
        for word in own_words(text)
    ]
    catalog = packaged_text("findings/catalog.txt")
    assert found + own_words(re.sub(r"^origin: .*", "", catalog, flags=re.MULTILINE)) == []


def test_help_of_commands_uses_plain_words() -> None:
    found = [
        f"{path.name}: {word}"
        for path, tree in trees().items()
        if path.parent == PACKAGE / "cli"
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_command")
        for word in own_words(ast.get_docstring(node) or "")
    ]
    assert found == []


def test_no_more_module_docstrings_begin_with_a_question() -> None:
    first = [path for path, tree in trees().items() if _QUESTION.match(ast.get_docstring(tree) or "")]
    assert len(first) <= QUESTIONS_AS_FIRST_WORD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Damaged parts are skipped and told", ["told"]),
        ("the queues are made anew; nobody is told", ["anew", "told"]),
        ("a record behind the damage", ["behind the"]),
        ("the store is untold, and the anewly", []),
    ],
)
def test_the_dictionary_finds_whole_words(text: str, words: list[str]) -> None:
    assert [one.split("'")[1] for one in own_words(text)] == words
