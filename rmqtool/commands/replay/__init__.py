"""REPLAY: messages sent again, to a cluster of 5.x brokers through its proxy.

The order of a file is kept: each message is sent when the one before is stored. A sent message is in the
ledger before the next is sent; a crash between the two sends one message twice, and so may a time-out of the
network: *at least once*.
"""

from __future__ import annotations
