"""Memory that a kernel's result takes over from what it is made of, in the operators themselves."""

from __future__ import annotations

import torch

from fusegen.runtime.emulation import emulation
from tests.modules import load

ATTENTION = """\
model Attention():
    input q: [batch, time, 24]
    input k: [batch, keys, 24]
    return softmax(q @ transpose(k, -2, -1), dim=-1) @ k
"""


def test_the_memory_lives_as_long_as_what_took_it_over() -> None:
    """Forward and backward: the checker refuses reads of memory that was given back."""
    torch.manual_seed(3)
    module = load(ATTENTION)()
    q, k = (torch.randn(2, n, 24, requires_grad=True) for n in (37, 50))
    q64, k64 = (x.detach().double().requires_grad_() for x in (q, k))
    exact = torch.softmax(q64 @ k64.transpose(-2, -1), -1) @ k64
    incoming = torch.randn(2, 37, 24)
    exact.backward(incoming.double())
    with emulation(seed=1, check=True):
        with torch.no_grad():
            alone = module(q, k)
        result = module(q, k)
        result.backward(incoming)
    # Exponents of up to 30, of 24 products each: their rounding is a part of each weight.
    bound = 24 * 30 * 2**-24
    gradients = ((q.grad, q64.grad), (k.grad, k64.grad))
    for actual, expected in ((alone, exact), (result, exact), *gradients):
        assert actual is not None and expected is not None
        error = (actual.detach().double() - expected.detach()).norm() / expected.detach().norm()
        assert error <= bound
