"""``rmqtool completion``: scripts for shells, and values that they offer out of the store on the line.

A shell shows no errors, so `rmqtool.cli.entry` answers nothing where a completer fails.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from rmqtool.cli.group import Command
from rmqtool.errors import ExitStatus
from rmqtool.store import PathKind, Store, open_store
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


_MOST = 1000
"""Nobody reads a longer list."""


def completer(values: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Return what completes an option whose values can be listed."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if os.environ.get("COMP_WORDS", "").endswith(f"={incomplete}"):
            return []  # zsh would put the value in place of the option, too
        items = [CompletionItem(value) for value in values(context) if value.startswith(incomplete)]
        return items[:_MOST]

    return complete


def _topics(context: click.Context) -> list[str]:
    """Return the topics that have queues in the store on the line."""
    store = _store_of(context)
    names = (
        {topic for kind in UNIT_QUEUE_KINDS for topic in store.topics(kind)} if store is not None else set()
    )
    return sorted(name for name in names if name.isprintable())


def _queues(context: click.Context) -> Iterable[str]:
    """Return the queue ids of the topics on the line; of all topics without one."""
    store, given = _store_of(context), context.params.get("topic") or ("*",)
    if store is None:
        return ()
    topics = [given] if isinstance(given, str) else given
    queues = (queue for kind in UNIT_QUEUE_KINDS for queue in store.queues(kind))
    numbers = {
        queue.queue_id for queue in queues if any(fnmatchcase(queue.topic or "", topic) for topic in topics)
    }
    return map(str, sorted(number for number in numbers if number is not None))


def _groups(context: click.Context) -> list[str]:
    """Return the groups that have offsets in the store on the line."""
    from rmqtool.derived.positions import consumed_offsets

    store = _store_of(context)
    readers = {consumed.reader for consumed in consumed_offsets(store)} if store is not None else set()
    groups = (reader.removeprefix("group ") for reader in sorted(readers) if reader.startswith("group "))
    return [group for group in groups if group.isprintable()]


def _settings(_: click.Context) -> Iterable[str]:
    """Return the broker settings that concern a store, in front of their values."""
    from rmqtool.store.broker_conf import DEFINITIONS

    return (f"{name}=" for name in DEFINITIONS)


def _zones(_: click.Context) -> list[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def _complete_code(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the finding codes, with what each is about."""
    from rmqtool.findings import CATALOG

    codes = ((code, entry.title) for code, entry in CATALOG.items())
    return [CompletionItem(code, help=title) for code, title in codes if code.startswith(incomplete.upper())]


COMPLETERS: dict[str, Completer] = {
    "topic": completer(_topics),
    "queue": completer(_queues),
    "group": completer(_groups),
    "property": completer(_settings),
    "zone": completer(_zones),
    "code": _complete_code,
}
"""Completers of options, by the name of their values."""


def _store_of(context: click.Context) -> Store | None:
    """Return the first store on the line; of a part of a store, the store that it belongs to."""
    named = (context.params.get(name) for name in ("store_path", "path", "paths"))
    values = [value[0] if isinstance(value, tuple) else value for value in named if value]
    values += context.args[:1]  # a line that ends in an option leaves its arguments unnamed
    if not values:
        return None
    # the shell hands over what was typed, before it has put in a home directory or a variable
    store = open_store(Path(os.path.expandvars(values[0])).expanduser())
    return store if store.kind is PathKind.STORE or store.root is None else open_store(store.root)


_PROGRAM = "rmqtool"
VARIABLE = "_RMQTOOL_COMPLETE"
"""Set by the scripts when a shell requests completions of a line."""

_EXAMPLES = """\
# for this shell and now
eval "$(rmqtool completion bash)"
# for every new bash
echo 'eval "$(rmqtool completion bash)"' >> ~/.bashrc
# for every new fish
rmqtool completion fish > ~/.config/fish/completions/rmqtool.fish
"""


@click.command("completion", cls=Command, examples=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> ExitStatus:
    """Print the completion script of a shell.

    For bash and zsh, evaluate it in ~/.bashrc or ~/.zshrc (there, after compinit); for fish, write it to
    ~/.config/fish/completions/rmqtool.fish. Topics, queues and groups of the store on the line are completed,
    too.
    """
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(shell_class(root, {}, _PROGRAM, VARIABLE).source())
    return ExitStatus.CLEAN


def answer_shell(root: click.Command, state: object, instruction: str) -> int:
    """Print what the line may go on with; ``instruction`` is such as ``zsh_complete``."""
    return shell_complete(root, {"obj": state}, _PROGRAM, VARIABLE, instruction)
