"""The modules that know nothing of files."""

from hypothesis import settings

# The same examples in every run: these tests are read when they fail, not rolled until they do.
steady = settings(max_examples=60, deadline=None, derandomize=True)
