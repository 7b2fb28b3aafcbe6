"""Memory that a kernel's result takes over from what it is made of, in the operators themselves."""

from __future__ import annotations

import pytest
import torch

from fusegen.compiler.variant import make_variant, variant_keys
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.plan.precision import Precision
from fusegen.runtime.emulation import emulation
from fusegen.testing.subject import Subject
from tests.modules import load

ATTENTION = """\
model Attention():
    input q: [batch, time, 24]
    input k: [batch, keys, 24]
    return softmax(q @ transpose(k, -2, -1), dim=-1) @ k
"""


def test_the_operators_hand_memory_on() -> None:
    """Without gradients, and in the backward; a training's forward returns what would take over."""
    chosen = Subject.of(Source("attention.fuse", ATTENTION), target="emulate").chosen
    variants = [
        make_variant(chosen, key)
        for key in variant_keys(chosen, [DType.FLOAT32], [Precision.HIGHEST])
    ]
    texts = ["".join(variant.sources.values()) for variant in variants]
    assert sum("its memory is that of" in text for text in texts) >= 2


@pytest.mark.parametrize("needed", ["q", "k", "qk"])
def test_the_memory_lives_as_long_as_what_took_it_over(needed: str) -> None:
    """Forward and backward: the checker refuses reads of memory that was given back."""
    torch.manual_seed(3)
    module = load(ATTENTION)()
    given = {name: torch.randn(2, n, 24) for name, n in (("q", 37), ("k", 50))}
    exact = {name: x.double().requires_grad_() for name, x in given.items()}
    truth = torch.softmax(exact["q"] @ exact["k"].transpose(-2, -1), -1) @ exact["k"]
    incoming = torch.randn(2, 37, 24)
    truth.backward(incoming.double())
    given = {name: x.requires_grad_(name in needed) for name, x in given.items()}
    with emulation(seed=1, check=True):
        with torch.no_grad():
            alone = module(*given.values())
        result = module(*given.values())
        result.backward(incoming)
    # Exponents of up to 30, of 24 products each: their rounding is a part of each weight.
    bound = 24 * 30 * 2**-24
    gradients = ((given[name].grad, exact[name].grad) for name in needed)
    for actual, expected in ((alone, truth), (result, truth), *gradients):
        assert actual is not None and expected is not None
        error = (actual.detach().double() - expected.detach()).norm() / expected.detach().norm()
        assert error <= bound
