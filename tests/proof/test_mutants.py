"""Every wrong version of the protocol is caught by a proof; the proofs that are functions hold for the right one."""

from __future__ import annotations

import pytest

from tests.proof.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.what.replace(" ", "-") for m in MUTANTS])
def test_mutant_is_caught(mutant):
    assert mutant.catch() is not None


@pytest.mark.parametrize("proof", {m.caught_by for m in MUTANTS if callable(m.caught_by)}, ids=lambda f: f.__name__)
def test_proof_holds(proof):
    proof()
