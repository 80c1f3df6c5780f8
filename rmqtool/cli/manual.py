"""``rmqtool help`` and ``rmqtool schema``: pages of the manual and JSON Schemas in the package."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files

import click

from rmqtool.cli.completion import completer
from rmqtool.cli.group import COMMANDS as ALL_COMMANDS
from rmqtool.cli.group import Command
from rmqtool.errors import ExitStatus

TOPICS = {
    "tour": "Tour",
    "incidents": "Incidents, by symptom",
    "options": "Options of all commands",
    "exit-status": "Exit status",
    "settings": "Settings",
    "fleets": "Many stores",
    "ci": "In CI and from cron",
    "rows": "Rows",
    "replay": "Messages sent again",
    "findings": "Findings",
    "library": "Library",
    "spark-tables": "Stores as tables of Spark",
    "scale": "Scale",
    "objects": "Stores in object storage and on HDFS",
}
"""The pages that are of no command, with their titles."""

_EXAMPLES = """\
# list the pages
rmqtool help
# what verify checks, with all options
rmqtool help verify
# what every finding means
rmqtool help findings
"""


def page(topic: str) -> str:
    """Return a page of the manual in Markdown, without the marks of what is generated."""
    if topic not in ALL_COMMANDS | TOPICS:
        close = get_close_matches(topic, [*TOPICS, *ALL_COMMANDS], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else " Without a topic, help lists them."
        raise click.UsageError(f"No page about {topic!r}.{hint}")
    text = files("rmqtool").joinpath("docs", f"{topic}.md").read_text("utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("<!-- "))


def _contents() -> str:
    """Return the list of pages."""
    widest = max(map(len, [*TOPICS, *ALL_COMMANDS]))
    titles = TOPICS | {name: entry.summary for name, entry in ALL_COMMANDS.items()}
    lines = [f"  {name:<{widest}}  {title}\n" for name, title in titles.items()]
    return "rmqtool help TOPIC prints one of these pages:\n\n" + "".join(lines)


@click.command("help", cls=Command, examples=_EXAMPLES)
@click.argument("topic", required=False, shell_complete=completer(lambda _: [*TOPICS, *ALL_COMMANDS]))
def help_command(topic: str | None) -> ExitStatus:
    """Print a page of the manual, or the list of its pages.

    TOPIC is a command or a page of the list that is printed without TOPIC. Pages are Markdown.
    """
    click.echo(_contents() if topic is None else page(topic), nl=False)
    return ExitStatus.CLEAN


_SUFFIX = ".json"
_SCHEMA_EXAMPLES = """\
# names of all schemas
rmqtool schema
# the document of verify --format json
rmqtool schema verify > verify.schema.json
# one line of dump --format ndjson
rmqtool schema dump-line > dump-line.schema.json
"""


def schema_names() -> list[str]:
    """Return the names of all schemas."""
    entries = files("rmqtool").joinpath("docs", "schemas").iterdir()
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX))


@click.command("schema", cls=Command, examples=_SCHEMA_EXAMPLES)
@click.argument("name", required=False, shell_complete=completer(lambda _: schema_names()))
def schema_command(name: str | None) -> ExitStatus:
    """Print the JSON Schema of an output.

    NAME is a command, for its json document, or COMMAND-line, for a line of its ndjson. The output is JSON
    Schema 2020-12; its title has the version that "schema" has in the outputs. prediction is part of the
    document of verify --predict-recovery, progress-line is a line of --progress json.
    """
    names = schema_names()
    if name is None:
        click.echo("".join(f"{name}\n" for name in names), nl=False)
    elif name in names:
        text = files("rmqtool").joinpath("docs", "schemas", name + _SUFFIX).read_text("utf-8")
        click.echo(text, nl=False)
    else:
        raise click.UsageError(f"No schema {name!r}. Without a NAME, rmqtool schema lists them.")
    return ExitStatus.CLEAN
