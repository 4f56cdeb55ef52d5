"""`python -m gwtq` is the command `gwtq`."""

import sys

from .cli import main

sys.exit(main())
