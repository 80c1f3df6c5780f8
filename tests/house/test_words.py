"""Words that stay out of texts, docstrings and comments, first words that do, and values that need names."""

from __future__ import annotations

import ast
import re
from functools import cache
from io import StringIO
from tokenize import COMMENT, generate_tokens
from typing import TYPE_CHECKING

import pytest

from tests.house.readme import DOCS, README, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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

BETTER_IN_DOCSTRINGS = {
    **{words: better for words, better in BETTER.items() if not words.startswith("is no ")},
    r"tells?|asks?(?! first)|asked|asking": "returns, shows; requests, calls, reads",
    r"(?<!left )behind": "after, of",
    r"(?:give|gives|giving) (?:\w+ )?back": "returns, closes",
    r"believe|heal|healing|mending": "trusts, fills, repairs",
    r"speaks? for|holds? records against": "shows, compares with",
}
"""As `BETTER`, for docstrings and comments, which may say that "there is no record"."""

PACKAGE = ROOT / "rmqtool"
_CODE = re.compile(r"```.*?```|`[^`]+`|<!-- (\w+) -->.*?<!-- end -->|\]\([^)]*\)", re.DOTALL)
_LITERAL = re.compile(r"``.*?``|`[^`]+`|^ *\w+: ?", re.DOTALL | re.MULTILINE)
_QUESTION = re.compile(r"\A(?:What|Which|How|Where|Who)\b|^ *(?:What|Which|How|Who)\b", re.MULTILINE)
_WORDS_OF_A_SENTENCE = 3


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the modules of the package."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def expression(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return an expression that finds any of these as a whole word, each in a group of its own."""
    groups = (rf"(?P<w{number}>\b(?:{one})\b)" for number, one in enumerate(words))
    return re.compile("|".join(groups), re.IGNORECASE)


def own_words(text: str, dictionary: Mapping[str, str] = BETTER) -> list[str]:
    """Return the words of our own in a text, each with what to say instead."""
    better = list(dictionary.values())
    found = expression(tuple(dictionary)).finditer(text)
    return [f"{one[0]!r} (say: {better[int(str(one.lastgroup)[1:])]})" for one in found]


@cache
def remarks(path: Path) -> list[tuple[int, str]]:
    """Return line and text of every docstring and comment, without literals and names of members."""
    return list(_remarks(path))


def _remarks(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, _LITERAL.sub("", str(node.value.value))
    for token in generate_tokens(StringIO(path.read_text("utf-8")).readline):
        if token.type == COMMENT:
            yield token.start[0], _LITERAL.sub("", token.string)


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
    texts = (ROOT / f"rmqtool/findings/{name}.txt" for name in ("catalog", "log_lines"))
    catalogue = "".join(path.read_text() for path in texts)
    assert found + own_words(re.sub(r"^(?:origin|line): .*", "", catalogue, flags=re.MULTILINE)) == []


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


def test_docstrings_and_comments_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in trees()
        for line, text in remarks(path)
        for word in own_words(text, BETTER_IN_DOCSTRINGS)
    ]
    assert found == []


def test_no_docstring_and_no_entry_of_one_begins_with_a_question() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in trees()
        for line, text in remarks(path)
        if _QUESTION.search(text)
    ]
    assert found == []


def test_no_constructor_takes_ten_values_without_their_names() -> None:
    """But for those of kernels, which numba calls so."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if path.parent != PACKAGE / "kernels"
        and isinstance(node, ast.Call)
        and re.fullmatch(r"(.*\.)?[A-Z]\w+", ast.unparse(node.func))
        and sum(not isinstance(value, ast.Starred) for value in node.args) >= 10
    ]
    assert found == []


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


def test_advice_names_the_option_that_takes_the_result() -> None:
    """``-o`` of these commands is the report of the run: the command then asks for ``--out``."""
    advice = re.compile(r"rmqtool (?:salvage|rebuild|rebuild-index|carve|convert)\b[^.;`\"\n]*")
    files = [path for end in ("py", "txt", "md") for path in PACKAGE.rglob(f"*.{end}")]
    said = [found for path in files for found in advice.findall(path.read_text("utf-8"))]
    assert [one for one in said if "--out " in one]
    assert [one for one in said if re.search(r" -o\b", one)] == []
