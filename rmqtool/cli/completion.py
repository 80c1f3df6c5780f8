"""``rmqtool completion``: scripts for shells, and the answers to them."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, ClassVar

import click
from click.shell_completion import (
    BashComplete,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from rmqtool.cli.help import Command
from rmqtool.errors import ExitStatus

if TYPE_CHECKING:
    from typing import Any

    from click.shell_completion import CompletionItem

_PROGRAM = "rmqtool"
VARIABLE = "_RMQTOOL_COMPLETE"
"""Set by the scripts when a shell requests completions of a line."""

_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[=:] ]] && compopt -o nospace
                ;;
        esac
    done < <(COMP_LINE=${COMP_LINE:0:COMP_POINT} COMP_WORD=${COMP_WORDS[COMP_CWORD]} \\
        %(complete_var)s=bash_complete "$1" 2> /dev/null)
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Bash, which breaks words at ``=`` and ``:``; what it calls a word is not what the command gets."""

    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one that the cursor is in."""
        words = split_arg_string(os.environ["COMP_LINE"] + "x")  # so that there is always a last word
        return words[1:-1], words[-1][:-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return a value as bash puts it in place of what it calls the current word."""
        current = os.environ["COMP_WORD"]
        if current[:1] in {'"', "'"}:
            return f"{item.type},{item.value}"
        before = split_arg_string(os.environ["COMP_LINE"] + "x")[-1][:-1]
        before = before.removesuffix(re.sub(r"^[=:]+$", "", current))
        value = item.value.removeprefix(before) if before[-1:] in {"=", ":"} else item.value
        return f"{item.type},{shlex.quote(value) if value else value}"


class _Zsh(ZshComplete):
    """Zsh, which puts a value in place of the whole word."""

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return a value with the option that stands in front of it in the same word."""
        item.value = _whole_word(self.get_completion_args()[1], item.value)
        return super().format_completion(item)


class _Fish(FishComplete):
    """Fish, which does the same."""

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return a value with the option that stands in front of it in the same word."""
        item.value = _whole_word(self.get_completion_args()[1], item.value)
        return super().format_completion(item)


def _whole_word(word: str, value: str) -> str:
    option, equals, _ = word.partition("=")
    return f"{option}={value}" if equals and option.startswith("--") else value


for _shell in (_Bash, _Zsh, _Fish):
    add_completion_class(_shell)


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
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, _PROGRAM, VARIABLE).source())
    return ExitStatus.CLEAN


def answer_shell(root: click.Command, state: object, instruction: str) -> int:
    """Print what the line may go on with; ``instruction`` is such as ``zsh_complete``."""
    return shell_complete(root, {"obj": state}, _PROGRAM, VARIABLE, instruction)


COMMANDS = {"completion": completion_command}
