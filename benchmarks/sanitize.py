"""`compute-sanitizer --tool memcheck python -m benchmarks.sanitize`: each chain once, small."""

from __future__ import annotations

import sys

import torch

import fusegen
from benchmarks.chains import CHAINS


def main() -> int:
    """Run every chain in float32 and bfloat16 at a small size; the sanitizer watches."""
    for chain in CHAINS:
        for dtype in (torch.float32, torch.bfloat16):
            module = fusegen.load(chain.file)(**chain.small).cuda().to(dtype)
            x = torch.randn(chain.small_shape, device="cuda").to(dtype)
            with torch.no_grad():
                finite = bool(torch.isfinite(module(x)).all())
            print(f"{chain.name} {dtype}: {'finite' if finite else 'NOT FINITE'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
