"""MEANING. One module or package per command, none knows another: from a store and options to typed rows.

Rows are dataclasses (`rmqtool.rows`); how they look is decided in ``report``, which options there are in
``cli``. Damage comes as rows too (`rows.Damage`); exceptions are for usage and environment. The look-ups
(``info``, ``query``, ``dump`` of little) load neither numpy nor numba, so that they answer in milliseconds,
but for a wrong ``__CRC32#``: whether it came with the message is asked of its whole segment, by kernels.
"""

from __future__ import annotations
