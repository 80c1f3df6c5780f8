"""The broker's switches, as a store's settings have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.dispatch.policy import DispatchPolicy

if TYPE_CHECKING:
    from rmqtool.store import Settings


def policy_of(settings: Settings) -> DispatchPolicy:
    """Return what decides to which queues and index entries messages are dispatched.

    Where a multi-dispatch switch is not known, the records decide: INNER_MULTI_QUEUE_OFFSET is there only if
    the broker assigned it.
    """
    return DispatchPolicy(
        broker_version=settings.broker_version,
        delay_levels_ms=settings.delay_levels.delay_ms,
        index_enabled=settings.message_index_enable,
        multi_dispatch=settings.enable_multi_dispatch is not False,
        lmq=settings.enable_lmq is not False,
        ext=settings.enable_consume_queue_ext,
        batch_topics=settings.batch_topics,
    )
