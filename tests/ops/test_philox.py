"""The random numbers of dropouts: published ones, and the same in PyTorch and in kernels."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fusegen.emulator.build import compile_flags
from fusegen.ops.composite.dropout import threshold
from fusegen.resources import include_files
from fusegen.testing import twins

ONES = 2**32 - 1
# Of the test vectors that Random123, the authors' library, has for philox4x32-10.
PUBLISHED = {
    (0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    (ONES, ONES): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
}
SOURCE = """#include "fusegen/math.cuh"
const char* fusegen_emulator_error_text() { return ""; }
FUSEGEN_EXPORT void words(uint32_t counter, uint64_t key, uint32_t* out) {
    const auto found = fusegen::philox({{counter, counter, counter, counter}}, key);
    memcpy(out, &found, sizeof found);
}
FUSEGEN_EXPORT bool kept(int64_t seed, int64_t position, uint32_t threshold, uint32_t number) {
    return fusegen::is_kept(seed, position, threshold, number);
}
template <int count>
bool alike(int64_t seed, int64_t first, uint32_t threshold, uint32_t number) {
    const auto together = fusegen::are_kept<count>(seed, first, threshold, number);
    for (int i = 0; i < count; ++i) {
        if (together[i] != fusegen::is_kept(seed, first + i, threshold, number)) {
            return false;
        }
    }
    return true;
}
FUSEGEN_EXPORT bool vectors(int64_t seed, int64_t block, uint32_t threshold, uint32_t number) {
    return alike<1>(seed, block, threshold, number) &&
           alike<2>(seed, block * 2, threshold, number) &&
           alike<4>(seed, block * 4, threshold, number) &&
           alike<8>(seed, block * 8, threshold, number);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("philox")
    for name, text in include_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source = folder / "philox.cpp"
    source.write_text(SOURCE, encoding="utf-8")
    command = ["g++", *compile_flags(False), f"-I{folder}", "-shared", str(source)]
    subprocess.run([*command, "-o", str(folder / "philox.so")], check=True)
    loaded = ctypes.CDLL(str(folder / "philox.so"))
    arguments = (ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32)
    for name in ("kept", "vectors"):
        getattr(loaded, name).argtypes = arguments
        getattr(loaded, name).restype = ctypes.c_bool
    loaded.words.argtypes = (ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p)
    return loaded


def twin(name: str) -> Callable[..., Any]:
    found = twins.names()[name]
    assert callable(found)
    return found


@pytest.mark.parametrize("number", [0, ONES])
def test_published_numbers(number: int, library: ctypes.CDLL) -> None:
    expected = PUBLISHED[number, number]
    word = torch.tensor(number)
    assert tuple(int(w) for w in twin("_philox")([word] * 4, [word] * 2)) == expected
    found = (ctypes.c_uint32 * 4)()
    library.words(number, number << 32 | number, found)
    assert tuple(found) == expected


def test_kernels_choose_as_pytorch_does(library: ctypes.CDLL) -> None:
    """Beyond 2^34, where a counter's second word counts, and for seeds of both signs."""
    positions = torch.tensor([*range(33), 2**34 - 1, 2**34, 2**34 + 5, 2**40 + 3, 2**62 + 2])
    for seed in (0, 1, -1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF):
        for number in (0, 1, 61):
            for limit in (threshold(0.5), threshold(0.1)):
                found = twin("_kept")(torch.tensor(seed), positions, limit, number)
                given = [library.kept(seed, p, limit, number) for p in positions.tolist()]
                assert found.tolist() == given


def test_neighbours_share_a_counter(library: ctypes.CDLL) -> None:
    for block in (0, 1, 2, 3, 77, 2**33, 2**40 + 1):
        assert library.vectors(5, block, threshold(0.5), 2)


def test_thresholds() -> None:
    """The nearest to p; what is not certain stays uncertain."""
    assert threshold(0.5) == 2**31 and threshold(0.1) == 429496730
    assert threshold(1 - 2**-40) == ONES and threshold(2**-40) == 0
