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

PROPERTY_NAMES = byte_words(
    "KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET"
    " BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION"
    " TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE"
    " DUP_INFO CHECK_IMMUNITY_TIME CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_PREPARED_QUEUE_OFFSET"
    " TRANSACTION_ID TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL"
    " ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY"
    " __transactionId__ INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC"
    " TIMER_DELIVER_MS TIMER_IN_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES"
    " TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DELAY_MS __CRC32# __LITE_TOPIC _SYS_MSG_PRIORITY_"
    " TRANS_OFFSET ORIGIN_GROUP TIMER_ROLL_LABEL DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID"
    " TRANSIENT_GROUPS"
)
"""``MessageConst``, 5.5.1: names that mean something to a broker."""
