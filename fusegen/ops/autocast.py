"""Which dtypes PyTorch's autocast runs each operation in, by the kind of device.

From PyTorch's own lists (ATen/autocast_mode.h for CUDA, autocast_mode.cpp for the CPU), by the
language's names; `tests/ops/test_autocast.py` holds every record against PyTorch itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Device(Enum):
    """A kind of device for which PyTorch has a list; the value is PyTorch's name for it."""

    CPU = "cpu"
    CUDA = "cuda"


class Policy(Enum):
    """What happens to an operation's floating-point operands, float64 ones apart."""

    AS_GIVEN = "as they are, promoted where the operation promotes"
    LOW = "converted to autocast's dtype"
    FLOAT32 = "converted to float32, unless the operation is given a dtype"
    LIKE_FIRST = "computed in float32 beside float32 ones, for a result of the first one's dtype"


_PRODUCTS = (
    *("matmul", "bmm", "addmm", "baddbmm", "linear"),
    *("conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
# PyTorch's kernels take a 16-bit input beside float32 parameters.
_BATCH_NORMS = ("batch_norm", "instance_norm")
_ROW_NORMS = ("layer_norm", "rms_norm", "group_norm")
# `square` calls `pow`.
_WIDE_ON_CUDA = (
    *("pow", "square", "rsqrt", "reciprocal", "softplus", "tan"),
    *("exp", "expm1", "log", "log1p", "log2", "log10"),
    *("sum", "prod", "norm", "logsumexp", "softmax", "log_softmax"),
)

POLICIES: Mapping[Device, Mapping[str, Policy]] = MappingProxyType(
    {
        Device.CPU: {
            **dict.fromkeys(_PRODUCTS, Policy.LOW),
            **dict.fromkeys((*_BATCH_NORMS, *_ROW_NORMS), Policy.LIKE_FIRST),
            **dict.fromkeys(("prod", "max_pool3d", "avg_pool3d"), Policy.FLOAT32),
        },
        Device.CUDA: {
            **dict.fromkeys(_PRODUCTS, Policy.LOW),
            **dict.fromkeys(_BATCH_NORMS, Policy.LIKE_FIRST),
            **dict.fromkeys((*_ROW_NORMS, *_WIDE_ON_CUDA), Policy.FLOAT32),
        },
    }
)
