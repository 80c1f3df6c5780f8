"""Additions of `verify` to the checks: the verdict with predictions and a baseline, manifests."""

from __future__ import annotations
