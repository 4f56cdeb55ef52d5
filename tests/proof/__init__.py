"""The proofs: crashes, errors, races, mutants, real processes.

GWTQ_PROOF_DEPTH: 1 (the default) is what every change is tested with; 2 and more explore further.
"""

import os

DEPTH = int(os.environ.get("GWTQ_PROOF_DEPTH", "1"))
