"""``salvage``: a new, complete store out of what is left of one, or of several copies of one.

``request`` declares the options, ``run`` goes from them to a plan and from a plan to files; ``report`` is the
result.
"""

from __future__ import annotations
