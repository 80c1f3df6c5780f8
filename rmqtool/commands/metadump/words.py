"""Words that are the broker's own wherever they stand: names that mean something to it, or to a finding."""

from __future__ import annotations

from rmqtool.topics import BROKERS_OWN, TIMER_TOPIC


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def byte_words(text: str) -> frozenset[bytes]:
    """Return the words of a text as bytes."""
    return frozenset(text.encode().split())


_CONFIG = words(
    "dataVersion counter timestamp stateVersion topicConfigTable topicName readQueueNums"
    " writeQueueNums perm topicFilterType topicSysFlag order attributes offsetTable resetOffsetTable"
    " pullOffsetTable lmqOffsetTable subscriptionGroupTable groupName consumeEnable"
    " consumeFromMinEnable consumeBroadcastEnable consumeMessageOrderly retryQueueNums retryMaxTimes"
    " brokerId whichBrokerWhenConsumeSlowly notifyConsumerIdsChangedEnable groupSysFlag"
    " consumeTimeoutMinute subscriptionDataSet groupRetryPolicy forbiddenTable filterDataByTopic topic"
    " groupFilterData consumerGroup expression expressionType bornTime deadTime bloomFilterData bitPos"
    " bitNum clientVersion compiledExpression dead bits m n k topicQueueMappingInfoMap table epoch"
    " hostedQueues bname scope totalQueues dirty leader currIdMap queueId queueOffsetMap timingCount"
    " messageRequestModeMap mode popShareQueueNum type EXPONENTIAL CUSTOMIZED SINGLE_TAG MULTI_TAG"
    " PULL POP TAG SQL92 queue.type +queue.type BatchCQ SimpleCQ RocksDBCQ cleanup.policy"
    " +cleanup.policy COMPACTION DELETE message.type +message.type NORMAL FIFO DELAY TRANSACTION MIXED"
    " UNSPECIFIED LITE PRIORITY CURRENT IDENTITY LOCK LOG"
)
"""Names and values of the broker's own in its files (4.9.8 to 5.5.1)."""

BROKER_WORDS = _CONFIG | BROKERS_OWN | {TIMER_TOPIC}
"""These stay, and a topic that is called like one of them does, too."""
