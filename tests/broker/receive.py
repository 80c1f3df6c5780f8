"""A program: receive messages through a proxy with the official client, and print a row of JSON for each.

    python -m tests.broker.receive HOST:PORT GROUP TOPIC=COUNT...

It ends when it has so many of every topic; none is acknowledged.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, SimpleConsumer

_AT_ONCE = 32
_INVISIBLE_S = 600
_REQUEST_S = 30
_POLL_S = 5


def main(proxy: str, group: str, *wanted: str) -> None:
    """Receive and print."""
    for topic, _, count in (word.partition("=") for word in wanted):
        configuration = ClientConfiguration(proxy, Credentials(), "", _REQUEST_S)
        consumer = SimpleConsumer(configuration, group, {topic: FilterExpression()}, _POLL_S)
        consumer.startup()
        found = 0
        while found < int(count):
            for message in _received(consumer):
                found += 1
                print(json.dumps(_row(message)))  # noqa: T201
        consumer.shutdown()


def _received(consumer: SimpleConsumer) -> list[Message]:
    try:
        messages: list[Message] = consumer.receive(_AT_ONCE, _INVISIBLE_S)
    except Exception as failure:
        # The name server may not know the topic yet, nor the proxy the client's settings.
        if not re.search("route|settings", str(failure)):
            raise
        time.sleep(0.2)
        return []
    return messages


def _row(message: Message) -> dict[str, object]:
    """Return what a message is, and what its receipt says: queue, queue offset, place in the log."""
    queue_id, queue_offset, place = (int(word) for word in message.receipt_handle.split()[-3:])
    return {
        "topic": message.topic,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "place": place,
        "body": base64.b64encode(message.body).decode(),
        "isWhole": not message.corrupted,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
