"""The time and chance: the only module that asks the system for either, so that tests can hand in their own.

Wall-clock UTC in seconds since 1970. The clock is assumed to be roughly right (`doc/format.md`); what happens when it
is set back or jumps is told in `doc/testing.md`.
"""

from __future__ import annotations

import os
import time


class Clock:
    """The system's clock and random numbers."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        time.sleep(seconds)

    def chance(self, size: int) -> bytes:
        """Random bytes from the kernel, so that two processes never share them after a fork."""
        return os.urandom(size)
