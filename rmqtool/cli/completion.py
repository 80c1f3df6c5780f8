"""``rmqtool completion``, and what a shell is offered for topics and queues of the store on its line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from rmqtool.errors import ExitStatus, RmqtoolError
from rmqtool.store import PathKind, open_store

if TYPE_CHECKING:
    from rmqtool.store import Store

_PROGRAM = "rmqtool"
_VARIABLE = "_RMQTOOL_COMPLETE"
_KINDS = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)
_MOST = 1000


@click.command("completion", epilog='Example: eval "$(rmqtool completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> ExitStatus:
    """Print the completion script of a shell.

    For bash and zsh, evaluate it in ~/.bashrc or ~/.zshrc; for fish, write it to
    ~/.config/fish/completions/rmqtool.fish. Topics and queues of the store on the line are completed, too.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, _PROGRAM, _VARIABLE).source())
    return ExitStatus.CLEAN


def complete_topic(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return topics of the store on the line that begin so."""
    store = _store_of(context)
    names = {topic for kind in _KINDS for topic in store.topics(kind)} if store is not None else set()
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())[:_MOST]


def complete_queue(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return queue ids of the topic on the line that begin so."""
    store, topic = _store_of(context), context.params.get("topic")
    if store is None or not isinstance(topic, str):
        return []
    numbers = {queue.queue_id for kind in _KINDS for queue in store.queues(kind, topic)}
    found = [str(number) for number in sorted(number for number in numbers if number is not None)]
    return [text for text in found if text.startswith(incomplete)][:_MOST]


def _store_of(context: click.Context) -> Store | None:
    """Return the first store on the line; none is an empty answer, as a shell shows no errors."""
    named = (context.params.get(name) for name in ("store_path", "path", "paths"))
    found = [one[0] if isinstance(one, tuple) else one for one in named if one]
    found += context.args[:1]  # a line that ends in an option leaves its arguments unnamed
    for value in found[:1]:
        try:
            return open_store(Path(value))
        except RmqtoolError:
            return None
    return None


COMMANDS = {"completion": completion_command}
