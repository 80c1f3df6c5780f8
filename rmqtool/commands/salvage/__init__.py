"""``salvage``: a new, complete store out of what is left of one, or of several copies of one.

``run`` goes from a request to a plan and from a plan to files; ``report`` is what came of it.
"""

from __future__ import annotations

from rmqtool.commands.salvage.report import SalvageReport
from rmqtool.commands.salvage.run import SalvageRequest, apply_plan, plan_salvage, salvage

__all__ = ["SalvageReport", "SalvageRequest", "apply_plan", "plan_salvage", "salvage"]
