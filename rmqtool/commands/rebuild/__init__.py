"""``rebuild``: ``consumequeue/`` and ``index/`` out of the log, as a running master's reput builds them.

``request`` declares the options, ``run`` goes from them to files, ``compare`` compares these with those that
are there, ``report`` is the result.
"""

from __future__ import annotations
