"""Predictions of a broker's start, as far as no broker is needed to judge them."""

from __future__ import annotations
