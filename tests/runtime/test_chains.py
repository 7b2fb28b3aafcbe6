"""The five chains, small, in the emulator: as accurate as PyTorch, with the same state."""

from __future__ import annotations

import pytest
import torch

import fusegen
from benchmarks.accuracy import exact, relative_error
from benchmarks.chains import CHAINS, Chain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_chain_errs_at_most_twice_as_much_as_eager(chain: Chain, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    plain = chain.plain(**chain.small).to(dtype)
    module = fusegen.load(chain.file, target="emulate")(**chain.small).to(dtype)
    assert list(module.state_dict()) == list(plain.state_dict())
    module.load_state_dict(plain.state_dict())
    x = torch.randn(chain.small_shape).to(dtype)
    with torch.no_grad():
        truth = exact(plain, x)
        found, eager = module(x), plain(x)
    assert found.dtype is dtype and found.shape == truth.shape
    assert relative_error(found, truth) <= 2 * relative_error(eager, truth)
    assert relative_error(torch.zeros_like(found), truth) > 0.5  # zeros would not pass
