"""Offline, read-only forensic inspector for the files of an Apache RocketMQ broker.

Rooms, lowest first; imports go down only (``tests/house`` enforces it):

``errors`` usage and environment errors, each with its exit status; ``releases`` what each broker does with
files; ``jit`` how kernels are compiled; ``progress`` what is said while work goes on;
``formats`` layouts as construct schemas; ``javacompat`` what Java does with strings and checksums;
``findings`` what can be wrong; ``store`` where bytes lie; ``scan`` bytes of log to arrays of messages;
``derived`` readers of queues, index and checkpoint; ``dispatch`` messages to what the store must contain;
``engine`` where functions run; ``reput`` the pipeline; ``recovery`` what a broker's start does;
``check`` what is wrong; ``rows`` typed rows, and rows of records; ``lookup`` messages by way of their queues;
``commands`` one module or package per command, none knows another; ``report`` how rows look;
``cli`` the door.
"""

from __future__ import annotations

__version__ = "0.1.0"
