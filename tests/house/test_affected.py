"""The tests that a change concerns."""

from __future__ import annotations

import ast

from tests.house.affected import affected, imported, name_of


def test_modules_lead_to_what_they_import_wherever_that_is() -> None:
    text = "import a.b\nfrom c import d\ndef f():\n    from rmqtool.io import local\n"
    assert imported(ast.parse(text)) == {"a.b", "c", "c.d", "rmqtool.io", "rmqtool.io.local"}
    assert name_of("rmqtool/io/__init__.py") == "rmqtool.io"


def test_users_of_users_are_affected_and_nobody_else() -> None:
    imports = {
        "low": set[str](),
        "middle": {"low"},
        "tests.test_top": {"middle"},
        "tests.test_other": {"else"},
    }
    assert affected({"low"}, imports) == {"low", "middle", "tests.test_top"}
    assert affected({"else"}, imports) == {"else", "tests.test_other"}
