"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Kernels compile at their first call, and test machines are shared: how long an example takes says nothing.
settings.register_profile("rmqtool", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rmqtool")
