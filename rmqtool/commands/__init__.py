"""MEANING. One module per command: from a store and options to typed rows.

Rows are dataclasses; how they look is decided in ``report``, which options there are in ``cli``. Damage comes
as rows too (`rows.Damage`); exceptions are for usage and environment. The look-ups (``info``, ``dump``,
``query``) need neither numpy nor numba, so that they answer within milliseconds.
"""

from __future__ import annotations
