"""Options of message bodies: ``--body``, ``--decompress``, ``--unpack-batches``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.options import adding, request_options
from rmqtool.commands.dump.request import DumpRequest
from rmqtool.report.formats import BodyMode
from rmqtool.rows.messages import MessageFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool import rows
    from rmqtool.progress import Progress


body_option = click.option(
    "--body",
    type=click.Choice([mode.value for mode in BodyMode]),
    help="Message bodies; default: a preview in text, else none.",
)
body_options = adding((body_option, request_options(DumpRequest, only=("decompress", "unpack_batches"))))
"""Adds the options, which `BodyChoice.of` takes."""


@dataclass(frozen=True)
class BodyChoice:
    """Form of bodies that the options choose.

    Attributes:
        mode: How bodies are shown; None is the format's habit.
        decompress: Whether they are decompressed.
        unpack: Whether the messages of inner batches become rows.
    """

    mode: BodyMode | None
    decompress: bool
    unpack: bool

    @classmethod
    def of(cls, options: dict[str, Any]) -> BodyChoice:
        """Return the choice of a command line."""
        body = options["body"]
        mode = None if body is None else BodyMode(body)
        return cls(mode, options["decompress"], options["unpack_batches"])

    def applied(self, found: Iterable[rows.Row], progress: Progress) -> Iterable[rows.Row]:
        """Return rows with bodies and batches in that form; a batch is unpacked from the body as stored."""
        if self.unpack:
            from rmqtool.rows.bodies import with_inner_messages

            found = with_inner_messages(found, MessageFilter())
        if self.decompress:
            from rmqtool.rows.bodies import decompressed

            found = decompressed(found, progress)
        return found
