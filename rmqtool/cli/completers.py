"""Values that a shell offers for an option: names out of the store on the line, codes, settings.

A shell shows no errors, so `rmqtool.cli.entry` answers nothing where one of these fails.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from rmqtool.store import PathKind, open_store
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import click

    from rmqtool.store import Store

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST = 1000
"""Nobody reads a longer list."""


def complete_topic(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the topics that have queues in the store on the line."""
    store = _store_of(context)
    names = (
        {topic for kind in UNIT_QUEUE_KINDS for topic in store.topics(kind)} if store is not None else set()
    )
    return _items(sorted(name for name in names if name.isprintable()), incomplete)


def complete_queue(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the queue ids of the topics on the line; of all topics without one."""
    store, given = _store_of(context), context.params.get("topic") or ("*",)
    if store is None:
        return []
    topics = [given] if isinstance(given, str) else given
    found = (queue for kind in UNIT_QUEUE_KINDS for queue in store.queues(kind))
    numbers = {one.queue_id for one in found if any(fnmatchcase(one.topic or "", topic) for topic in topics)}
    return _items(map(str, sorted(number for number in numbers if number is not None)), incomplete)


def complete_group(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the groups that have offsets in the store on the line."""
    from rmqtool.derived.consumed_offsets import consumed_offsets

    store = _store_of(context)
    readers = {consumed.reader for consumed in consumed_offsets(store)} if store is not None else set()
    groups = (reader.removeprefix("group ") for reader in sorted(readers) if reader.startswith("group "))
    return _items((group for group in groups if group.isprintable()), incomplete)


def complete_code(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the finding codes, with what each is about."""
    from rmqtool.findings import CATALOG

    wanted = incomplete.upper()
    return [
        CompletionItem(code, help=entry.title) for code, entry in CATALOG.items() if code.startswith(wanted)
    ]


def complete_property(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the broker settings that concern a store, in front of their values."""
    from rmqtool.store.setting import DEFINITIONS

    return _items((f"{name}=" for name in DEFINITIONS), incomplete)


def complete_zone(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the time zones that this machine knows."""
    from zoneinfo import available_timezones

    return _items(sorted(available_timezones()), incomplete)


def complete_target(purposes: Sequence[str]) -> Completer:
    """Return a completer of values ``PURPOSE:FILE``."""

    def complete(
        _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if ":" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        return _items((f"{purpose}:" for purpose in purposes), incomplete)

    return complete


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found[:_MOST]


def _store_of(context: click.Context) -> Store | None:
    """Return the first store on the line; of a part of a store, the store that it belongs to."""
    named = (context.params.get(name) for name in ("store_path", "path", "paths"))
    found = [one[0] if isinstance(one, tuple) else one for one in named if one]
    found += context.args[:1]  # a line that ends in an option leaves its arguments unnamed
    if not found:
        return None
    # the shell hands over what was typed, before it has put in a home directory or a variable
    store = open_store(Path(os.path.expandvars(found[0])).expanduser())
    return store if store.kind is PathKind.STORE or store.root is None else open_store(store.root)
