"""What PyTorch itself refuses, so that there is nothing to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Unsuitable(Exception):
    """PyTorch itself refuses the case, such as the greatest of no elements, or has no derivative of
    it, such as that of a power whose exponents are truth values; or kernels refuse it by right."""


@contextmanager
def refusals_of_pytorch() -> Iterator[None]:
    """Where nothing but PyTorch's own operations run: what they refuse is Unsuitable. A fault of a
    GPU, which a kernel that ran before may have left, is no refusal, nor is any other exception."""
    try:
        yield
    except torch.AcceleratorError:
        raise
    except (RuntimeError, IndexError, ValueError) as refusal:
        raise Unsuitable(str(refusal)) from refusal
