"""Messages by key: the index names candidates, the records decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.index_files import IndexFile, warn_of_assumed_geometry
from rmqtool.javacompat import index_key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.store import Store


def index_hits(store: Store, topic: str, key: str, progress: Progress) -> Iterator[int]:
    """Yield the physical offsets that the index has for a key, newest first, as a broker finds them.

    Java: ``IndexService#queryOffset``, ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3). Every hit may be a
    collision of hashes. Where a chain is broken, older messages of that file may be missed; that is said.

    Args:
        store: The store.
        topic: The stored topic.
        key: One key, or the unique key.
        progress: Told what the index lacks.
    """
    wanted = index_key_hash(topic, key)
    geometry = store.settings.index_geometry
    assumed = warn_of_assumed_geometry(store, progress)
    for file in reversed(store.index_files):
        index_file = IndexFile(file, geometry)
        if file.size_bytes != geometry.size_bytes and not assumed:
            progress.warn(
                f"{file.label} has {file.size_bytes} bytes where the settings ask for {geometry.size_bytes};"
                " the answer may be incomplete, --scan reads the log itself"
            )
        slot = wanted % geometry.slots
        last = None
        for last in index_file.chain(slot):
            item = last[1]
            if item.key_hash == wanted:
                yield item.physical_offset
        problem = index_file.chain_problem(slot, last)
        if problem is not None:
            progress.warn(
                f"{file.label} is damaged: {problem};"
                " the answer may be incomplete, --scan reads the log itself"
            )
        file.close()
