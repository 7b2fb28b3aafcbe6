"""Device functions of one number, compiled for the CPU, on tensors."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

from fusegen.emulator.build import compile_flags
from tests.ops.test_device_functions import write_headers

PREAMBLE = """#include "fusegen/multiplied.cuh"
const char* fusegen_emulator_error_text() { return ""; }
"""
FUNCTION = """extern "C" __attribute__((visibility("default")))
void {name}(const float* x, float* y, long count) {{
    for (long i = 0; i < count; ++i) {{ y[i] = fusegen::{name}(x[i]{more}); }}
}}
"""


class Library:
    """The device functions of some names, whose arguments behind the first are the numbers in
    `more`."""

    def __init__(self, folder: Path, names: Sequence[str], more: Sequence[float] = ()) -> None:
        write_headers(folder)
        further = "".join(f", {number!r}f" for number in more)
        texts = [FUNCTION.format(name=name, more=further) for name in names]
        (folder / "functions.cu").write_text(PREAMBLE + "".join(texts))
        target = folder / "functions.so"
        flags = [*compile_flags(check=False), f"-I{folder}", "-shared"]
        subprocess.run(["g++", *flags, folder / "functions.cu", "-o", target], check=True)
        self._functions = ctypes.CDLL(str(target))

    def __call__(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """The function of that name of each element of a float32 tensor."""
        y = torch.empty_like(x)
        pointers = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()))
        getattr(self._functions, name)(*pointers, ctypes.c_long(x.numel()))
        return y


def every(dtype: torch.dtype) -> torch.Tensor:
    """All numbers of 16 bits, as float32."""
    return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype).float()
