"""Links that lead out of a store; they are followed, as a broker does, and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.store.files import TREE_DEPTH
from rmqtool.store.kinds import QUEUE_KINDS
from rmqtool.store.listing import label_of, list_directories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location
    from rmqtool.store.root import Store


def links_out(store: Store, *, in_topics: bool = False) -> Iterator[tuple[str, Location]]:
    """Yield label and target of each link that leads out of a store.

    Examines the parts of the store and their entries: files of log and index, directories of topics; with
    ``in_topics``, also the entries of topic and queue directories. Raises `EnvironmentFailureError` if one
    may not be read.
    """
    base = store.base.real()
    for link in _links(store, in_topics=in_topics):
        target = link.real()
        if not target.is_relative_to(base):
            yield label_of(link, store.base), target


def _links(store: Store, *, in_topics: bool) -> Iterator[Location]:
    for part in dict.fromkeys(path for root in store.roots.values() for path in root.paths):
        if part.real() != part.parent.real() / part.name:
            yield part
        yield from _links_in(part)
    trees = (store.roots[kind] for kind in QUEUE_KINDS if in_topics and kind in store.roots)
    for root in trees:
        for topic in list_directories(root.paths[0], store.base)[0] if root.depth == TREE_DEPTH else ():
            yield from _links_in(topic)
            for queue in list_directories(topic, store.base)[0]:
                yield from _links_in(queue)


def _links_in(directory: Location) -> Iterator[Location]:
    return (directory / entry.name for entry in directory.entries() if entry.status.is_link)
