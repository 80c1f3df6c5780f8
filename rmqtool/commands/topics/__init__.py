"""``topics``: what lies in the log by topic, added up at the speed of a scan."""

from __future__ import annotations

from rmqtool.commands.topics.model import LogParts, TopicsReport, TopicsRequest, TopicTotals
from rmqtool.commands.topics.run import topics_of

__all__ = ["LogParts", "TopicTotals", "TopicsReport", "TopicsRequest", "topics_of"]
