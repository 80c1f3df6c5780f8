"""Sender to the cluster, through its proxy: the one module that knows RocketMQ's Python client.

The client retries on its own, so that a time-out of the network may store a message twice. It writes its log
to ``~/logs/rocketmq_python``.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from rmqtool.rows.replay import ReplayMessage

ACCESS_KEY, SECRET_KEY = "RMQTOOL_ACCESS_KEY", "RMQTOOL_SECRET_KEY"
"""Variables of the environment with the credentials of a cluster that requires them."""

UNIQ_KEY = "RMQTOOL_REPLAY_OF"
"""The user property with the old unique key, by which a consumer can recognise duplicates."""

LARGEST_BODY = 4 << 20
_TOPIC = re.compile(r"[%a-zA-Z0-9_-]+")
_LONGEST_GROUP = 64
_TYPES = {1: "NORMAL", 2: "FIFO", 3: "DELAY", 4: "TRANSACTION", 5: "LITE", 6: "PRIORITY"}
_CONNECT_S, _REQUEST_S = 5.0, 5
_REFUSALS = (
    "BadRequestException",
    "IllegalArgumentException",
    "PayloadTooLargeException",
    "PayloadEmptyException",
    "RequestHeaderFieldsTooLargeException",
)


class RefusedMessageError(Exception):
    """A message that the client or the cluster does not take, however often it is sent."""


def problem_of(message: ReplayMessage, topic: str) -> str | None:
    """Return why the client does not take such a message; None if it does."""
    if not message.body:
        return "its body is empty, which the client does not send"
    if len(message.body) > LARGEST_BODY:
        return f"its body has {len(message.body):,} bytes; the client sends up to {LARGEST_BODY:,}"
    if message.tags is not None and "|" in message.tags:
        return f"its tag is {message.tags!r}, which the client does not send"
    if _TOPIC.fullmatch(topic) is None:
        return (
            f"the topic {topic!r} is not a name that the client accepts; --topic-map OLD=NEW gives it another"
        )
    return None


class ProxySender:
    """The official client; ``proxy`` is ``HOST:PORT``.

    Raises:
        UsageError: It is not ``HOST:PORT``.
        EnvironmentFailureError: The client is not installed, or nobody answers.
    """

    def __init__(self, proxy: str, *, tls: bool = False) -> None:
        self._proxy = proxy
        _check_reachable(*address_of(proxy))
        if find_spec("rocketmq") is None:
            raise EnvironmentFailureError(
                "RocketMQ's Python client is not installed: pip install 'rmqtool[replay]' adds it"
            )
        from rocketmq import ClientConfiguration, Credentials, Message, Producer

        self._message = Message
        credentials = Credentials(os.environ.get(ACCESS_KEY, ""), os.environ.get(SECRET_KEY, ""))
        configuration = ClientConfiguration(proxy, credentials, "", _REQUEST_S)
        self._producer = Producer(configuration, (), tls_enable=tls)
        try:
            self._producer.startup()
        except Exception as failure:
            raise self._unreachable(failure) from failure

    def types_of(self, topic: str) -> frozenset[str]:
        """Return the kinds of messages that a topic takes: ``NORMAL``, ``FIFO`` and so on."""
        try:
            route = self._producer._retrieve_topic_route_data(topic)
        except Exception as failure:
            raise EnvironmentFailureError(
                f"topic {topic}: {self._proxy} has no route to it; create it there, or send to another with"
                f" --topic-map {topic}=NEW (~/logs/rocketmq_python has the cluster's answer)"
            ) from failure
        queues = route.message_queues
        numbers = {number for queue in queues for number in queue.accept_message_types}
        return frozenset(_TYPES.get(number, str(number)) for number in numbers)

    def send(self, message: ReplayMessage, topic: str, group: str | None) -> str:
        """Send a message, in the order of a ``group`` if there is one; return its ID once it is stored."""
        try:
            receipt = self._producer.send(self._made(message, topic, group))
        except Exception as failure:
            if type(failure).__name__ in _REFUSALS:
                raise RefusedMessageError(str(failure)) from failure
            if type(failure).__name__ == "NotFoundException":
                raise EnvironmentFailureError(
                    f"topic {topic}: no longer exists ({failure}); create it"
                ) from failure
            raise self._unreachable(failure) from failure
        return str(receipt.message_id)

    def close(self) -> None:
        """End the client's threads."""
        with suppress(Exception):  # all sent messages are in the ledger
            self._producer.shutdown()

    def _made(self, message: ReplayMessage, topic: str, group: str | None) -> Any:  # noqa: ANN401 - untyped
        made = self._message()
        made.topic, made.body = topic, message.body
        if message.tags is not None and message.tags.strip():
            made.tag = message.tags
        for key in message.keys:
            made.keys = key  # its setter adds
        if group is not None:
            made.message_group = group[:_LONGEST_GROUP]
        made.properties.update(message.properties)
        if message.uniq_key is not None:
            made.properties[UNIQ_KEY] = message.uniq_key
        return made

    def _unreachable(self, failure: BaseException) -> EnvironmentFailureError:
        said = str(failure) or type(failure).__name__
        return EnvironmentFailureError(
            f"{self._proxy}: the proxy did not accept the message: {said}; check its log and run this again"
        )


def address_of(proxy: str) -> tuple[str, int]:
    """Return host and port; UsageError without them."""
    host, _, port = proxy.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) >= 1 << 16:
        raise UsageError(f"--proxy {proxy!r}: expected HOST:PORT, such as 127.0.0.1:8081")
    return host, int(port)


def _check_reachable(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as failure:
        why = failure.strerror or str(failure)
        raise EnvironmentFailureError(
            f"{host}:{port}: no proxy answers there ({why}); give the gRPC address of a 5.x cluster's proxy,"
            " port 8081 by default"
        ) from failure
