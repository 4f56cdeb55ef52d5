"""What all tests share: Hypothesis draws the same examples every time, and a slow machine is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("gwtq", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gwtq")
