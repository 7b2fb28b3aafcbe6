"""The five chains on the GPU, small: right, deterministic, every element written."""

from __future__ import annotations

import pytest
import torch

import fusegen
from benchmarks.accuracy import exact, overwrites_poison, relative_error, same_bits
from benchmarks.chains import CHAINS, Chain

# Below this many rounding units of the dtype, eager's own error is luck.
UNITS = 1.0


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_chain_is_as_accurate_as_eager(chain: Chain, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    plain = chain.plain(**chain.small).cuda().to(dtype)
    generated = fusegen.load(chain.file)(**chain.small).cuda().to(dtype)
    generated.load_state_dict(plain.state_dict())
    x = torch.randn(chain.small_shape, device="cuda").to(dtype)
    with torch.no_grad():
        truth = exact(plain, x)
        bound = max(2 * relative_error(plain(x), truth), UNITS * torch.finfo(dtype).eps)
        assert relative_error(generated(x), truth) <= bound
        assert same_bits(lambda: [generated(x)]) == [True]
        assert overwrites_poison(lambda: generated(x))
