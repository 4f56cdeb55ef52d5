"""The version: a module of its own, so that the installer reads it without importing the rest."""

from __future__ import annotations

__version__ = "0.1.0"
