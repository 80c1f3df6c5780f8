"""What `verify` adds to the checks: the verdict with predictions and a baseline, manifests, explanations."""

from __future__ import annotations
