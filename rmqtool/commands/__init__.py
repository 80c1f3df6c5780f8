"""MEANING. One module or package per command, none knows another: from a store and options to typed rows.

Rows are dataclasses (`rmqtool.rows`); ``report`` decides how they look, ``cli`` which options there are.
Damage comes as rows too (`rows.Damage`); exceptions are for usage and environment. The look-ups (``info``,
``query``, ``dump`` of little) load neither numpy nor numba, so that they answer in milliseconds. The
exception is a wrong ``__CRC32#``: kernels read its whole segment to find whether it came with the message.
"""

from __future__ import annotations
