"""The version: a module of its own, so that the installer reads it without importing the rest."""

__version__ = "0.1.0"
