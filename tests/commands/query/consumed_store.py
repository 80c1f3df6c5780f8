"""A store in which a group has come to all kinds of points with its messages, as brokers write the records.

The properties are those of ``AbstractSendMessageProcessor#consumerSendMsgBack`` and
``PopReviveService#reviveRetry``; `tests.broker.test_consumption` holds them against a whole broker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.formats import message
from tests.check.log_store import Log
from tests.commands.rebuilding import rebuild_store

if TYPE_CHECKING:
    from pathlib import Path

GROUP, TOPIC = "billing", "Orders"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
SETTINGS = ("mappedFileSizeConsumeQueue=200", "maxHashSlotNum=50", "maxIndexNum=100")
HOST = "0102030400002A9F"  # of tests.scan.log_builder


@dataclass
class ConsumedStore:
    """A store under construction.

    Attributes:
        log: Its log.
        offsets: The group's, as in consumerOffset.json.
    """

    log: Log = field(default_factory=Log)
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, topic: str = TOPIC, queue_id: int = 0, **properties: str) -> int:
        """Append a message; return its physical offset."""
        return self._append(topic, queue_id, b"b", properties)

    def _append(self, topic: str, queue_id: int, body: bytes, properties: dict[str, str]) -> int:
        times = int(properties.pop("reconsume_times", "0"))
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        fields: dict[str, Any] = {"topic": topic.encode(), "queueId": queue_id, "reconsumeTimes": times}
        return self.log.add(**fields, body=body, properties=text.encode())

    def send(self, name: str, topic: str = TOPIC, queue_id: int = 0, **properties: str) -> int:
        """Append a message as a producer sends it."""
        return self.add(topic, queue_id, KEYS=f"k-{name}", UNIQ_KEY=f"U-{name}", **properties)

    def send_back(self, name: str, origin: int | str, times: int = 1, *, delivered: bool = True) -> None:
        """Append what becomes of a message that a consumer sends back: delayed, then in the retry topic."""
        origin_id = origin if isinstance(origin, str) else f"{HOST}{origin:016X}"
        copied = {
            "KEYS": f"k-{name}",
            "UNIQ_KEY": f"U-{name}",
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": origin_id,
            "DELAY": "3",
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
            "reconsume_times": str(times),
        }
        self.add("SCHEDULE_TOPIC_XXXX", 2, **copied)
        if delivered:
            self.add(RETRY, 0, **copied)

    def dead_letter(self, name: str, origin: int, times: int = 2) -> None:
        """Append a dead letter."""
        names = {"KEYS": f"k-{name}", "UNIQ_KEY": f"U-{name}", "RETRY_TOPIC": TOPIC}
        self.add(DEAD, 0, **names, ORIGIN_MESSAGE_ID=f"{HOST}{origin:016X}", reconsume_times=str(times))

    def commit(self, offset: int, topic: str = TOPIC, queue_id: int = 0, group: str = GROUP) -> None:
        """Let a group commit the next queue offset that it consumes."""
        self.offsets.setdefault(f"{topic}@{group}", {})[str(queue_id)] = offset

    def pop(self, tag: str, *, timed: bool = False, **body: Any) -> None:  # noqa: ANN401 - members of JSON
        """Append a check point or an acknowledgement; those that are not due lie in the timer's topic."""
        data = json.dumps({"c": GROUP, "t": TOPIC, "q": 0, "bn": "broker", **body}).encode()
        revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
        if timed:
            waits = {"TAGS": tag, "REAL_TOPIC": revive, "REAL_QID": "0"}
            self._append("rmq_sys_wheel_timer", 0, data, waits)
        else:
            self._append(revive, 0, data, {"TAGS": tag})

    def prepare(self, name: str, topic: str = TOPIC) -> int:
        """Append a prepared record that lies in a topic itself."""
        text = f"KEYS\x01k-{name}\x02UNIQ_KEY\x01U-{name}\x02"
        fields = {"topic": topic.encode(), "properties": text.encode(), "queueOffset": 0}
        return self.log.add(**fields, sysFlag=message.TRANSACTION_PREPARED)

    def write(self, root: Path) -> Path:
        """Write the store, with queues and index as a broker builds them; return its root."""
        self.log.write(root / "commitlog")
        rebuild_store(root, None, root.with_name("derived"), properties=SETTINGS)
        for part in ("consumequeue", "index"):
            (root.with_name("derived") / part).rename(root / part)
        (root / "config").mkdir()
        self.write_config(root, "consumerOffset.json", {"offsetTable": self.offsets})
        return root

    def write_config(self, root: Path, name: str, document: object) -> None:
        """Write a file of ``config/``."""
        (root / "config" / name).write_text(json.dumps(document))
