"""Messages sent again, to a cluster of 5.x brokers through its proxy.

The order of a file is kept: one message is sent after the other, the next when the one before is stored. What
was sent is in the ledger before the next is; a crash between the two sends one message twice, and a time-out
of the network may do so as well: *at least once*.
"""

from __future__ import annotations
