"""wgmma in its types, shapes and layouts, with bulk copies of three dimensions both ways."""

from __future__ import annotations

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose
from tests.emulator.planted_faults import assert_found_under_every_seed

BATCHES = 2

# Type, N, whether A and B are MN-major: as the kernel's choices stand.
CHOICES = [
    ("bfloat16", 16, False, False),
    ("bfloat16", 96, False, False),
    ("bfloat16", 256, False, False),
    ("float16", 128, False, False),
    ("bfloat16", 64, False, True),
    ("bfloat16", 192, False, True),
    ("float16", 256, True, True),
    ("bfloat16", 96, True, False),
    ("tf32", 64, False, False),
    ("tf32", 240, False, False),
    # With A in registers.
    ("bfloat16", 64, False, True),
    ("float16", 144, False, False),
]


def encode(x: np.ndarray, dtype: str) -> np.ndarray:
    """Whole numbers in the bits of the type."""
    if dtype == "float16":
        return x.astype(np.float16)
    single = x.astype(np.float32)
    return (single.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else single


def multiply(
    runtime: EmulatorRuntime, kernel: Kernel, choice: int
) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Launch; the report, the result, and what it should be."""
    dtype, n, a_is_mn_major, b_is_mn_major = CHOICES[choice]
    k = 32 if dtype == "tf32" else 64
    random = np.random.default_rng(choice)
    a = random.integers(-9, 10, size=(BATCHES, 64, k))
    b = random.integers(-9, 10, size=(BATCHES, k, n))
    stored_a = encode(a.transpose(0, 2, 1) if a_is_mn_major else a, dtype)
    stored_b = encode(b if b_is_mn_major else b.transpose(0, 2, 1), dtype)
    stored_a, stored_b = np.ascontiguousarray(stored_a), np.ascontiguousarray(stored_b)
    d = np.full((BATCHES, 64, n), np.nan, np.float32)
    expose(runtime, stored_a, initialised=True)
    expose(runtime, stored_b, initialised=True)
    expose(runtime, d, initialised=False)
    report = kernel(choice, stored_a, stored_b, d, BATCHES, 0)
    return report, d, (a @ b).astype(np.float32)


@pytest.mark.parametrize(
    "choice", range(len(CHOICES)), ids=lambda i: "-".join(map(str, CHOICES[i]))
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_types_shapes_and_layouts(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, choice: int, seed: int
) -> None:
    runtime.configure(seed, check=True)
    report, d, exact = multiply(runtime, load_kernel("hopper_wgmma", check=True), choice)
    assert report is None
    np.testing.assert_array_equal(d, exact)
    assert runtime.first_unwritten(d.ctypes.data, d.nbytes) is None


# Fault and a pattern that the report must match.
FAULTS = [
    ("DIFFERENT_DESCRIPTORS", "do not agree in the descriptor of A"),
    ("UNSWIZZLED_TILE", "operand A was loaded without the 128-byte swizzle"),
    ("MISSING_COMMIT", "the sums of wgmma at .* are used at"),
    ("SUMS_READ_EARLY", "the sums of wgmma at .* are used at"),
    ("SUMS_WRITTEN_EARLY", "the sums of wgmma at .* are used at"),
    ("MISSING_ASYNC_FENCE", "missing fence_async_shared: reads"),
    ("ASYNC_FENCE_AFTER_BARRIER", "missing fence_async_shared: reads"),
    ("MISSING_STORE_COMMIT", "returns without waiting until the store has read"),
    ("MISSING_STORE_WAIT", "returns without waiting until the store has read"),
    ("STORED_TILE_OVERWRITTEN", "race: writes at .* what a bulk store read"),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_checker_finds_fault_under_every_seed(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        "hopper_wgmma",
        fault,
        says,
        lambda kernel: multiply(runtime, kernel, choice=3)[0],
    )


def test_sums_used_early_are_nan_without_checker(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    report, _, _ = multiply(runtime, load_kernel("hopper_wgmma", "SUMS_WRITTEN_EARLY"), choice=3)
    assert report is not None
    assert "its sums were written to before wgmma_wait" in report
