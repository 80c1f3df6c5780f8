"""``rmqtool schema``: the JSON Schemas of all outputs, which are installed with the package."""

from __future__ import annotations

from importlib.resources import files

import click
from click.shell_completion import CompletionItem

from rmqtool.cli.help import Command
from rmqtool.errors import ExitStatus

_SUFFIX = ".json"
_EXAMPLES = """\
# names of all schemas
rmqtool schema
# the document of verify --format json
rmqtool schema verify > verify.schema.json
# one line of dump --format ndjson
rmqtool schema dump-line > dump-line.schema.json
"""


def schema_names() -> list[str]:
    """Return the names of all schemas."""
    found = files("rmqtool").joinpath("docs", "schemas").iterdir()
    return sorted(one.name.removesuffix(_SUFFIX) for one in found if one.name.endswith(_SUFFIX))


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the schemas."""
    return [CompletionItem(name) for name in schema_names() if name.startswith(incomplete)]


@click.command("schema", cls=Command, examples=_EXAMPLES)
@click.argument("name", required=False, shell_complete=_complete)
def schema_command(name: str | None) -> ExitStatus:
    """Print the JSON Schema of an output.

    NAME is a command, for its json document, or COMMAND-line, for a line of its ndjson. The output is JSON
    Schema 2020-12; its title has the version that "schema" has in the outputs. prediction is part of the
    document of verify --predict-recovery, progress-line is a line of --progress json.
    """
    names = schema_names()
    if name is None:
        click.echo("".join(f"{one}\n" for one in names), nl=False)
    elif name in names:
        text = files("rmqtool").joinpath("docs", "schemas", name + _SUFFIX).read_text("utf-8")
        click.echo(text, nl=False)
    else:
        raise click.UsageError(f"No schema {name!r}. Without a NAME, rmqtool schema lists them.")
    return ExitStatus.CLEAN


COMMANDS = {"schema": schema_command}
