"""Copies of the elements that a convolution's kernel meets: right values, and faults."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, expose
from tests.emulator.planted_faults import assert_found_under_every_seed
from tests.emulator.test_hopper_copies import ADDRESS, NONE, SIZE, STRIDE

NAME = "hopper_window"
CHANNELS, LINES = 64, 24


@dataclass(frozen=True)
class Copy:
    """A copy of an element of each of 24 windows, all as (planes,) rows and columns: images of
    `sizes`, windows that begin `lower` from an image's first element and end `upper` from its last,
    `steps` apart; the first window copied begins `at` in `image`, and what is copied are 64
    channels from `channel` on of what lies `offsets` into it."""

    sizes: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    at: tuple[int, ...]
    offsets: tuple[int, ...]
    image: int = 0
    channel: int = 0
    images: int = 3
    channels: int = 64

    def source(self) -> np.ndarray:
        """The images, channels last; numbers are told apart by their bits."""
        shape = self.images, *self.sizes, self.channels
        drawn = np.random.default_rng(3).integers(1, 1 << 15, np.prod(shape) + 8)
        around: np.ndarray = drawn.astype(np.uint16)
        start = -around.ctypes.data % 16 // 2
        source: np.ndarray = around[start : start + int(np.prod(shape))].reshape(shape)
        return source

    def expected(self, source: np.ndarray) -> np.ndarray:
        """What is copied: window by window along a row, the next row, and the next image."""
        begins = [
            range(low, size + high, step)
            for low, high, step, size in zip(
                self.lower, self.upper, self.steps, self.sizes, strict=True
            )
        ]
        windows = [*itertools.product(range(self.images), *begins)]
        first = windows.index((self.image, *self.at))
        tile = np.zeros((LINES, CHANNELS), np.uint16)
        for line, (image, *begin) in enumerate(windows[first : first + LINES]):
            place = [a + offset for a, offset in zip(begin, self.offsets, strict=True)]
            if all(0 <= a < size for a, size in zip(place, self.sizes, strict=True)):
                at_all = image, *place
                inside = source[at_all][self.channel : self.channel + CHANNELS]
                tile[line, : len(inside)] = inside
        return tile

    def launch(self, runtime: EmulatorRuntime, kernel: Kernel) -> tuple[str | None, np.ndarray]:
        """The report, and what was copied."""
        source, target = self.source(), np.zeros((LINES, CHANNELS), np.uint16)
        expose(runtime, source, initialised=True)
        expose(runtime, target, initialised=False)
        sizes = np.array(source.shape[::-1], np.int64)
        of_windows = (self.lower, self.upper, self.steps)
        lower, upper, steps = (np.array(numbers[::-1], np.int32) for numbers in of_windows)
        at = np.array((self.channel, *self.at[::-1], self.image), np.int32)
        offsets = np.array(self.offsets[::-1], np.int32)
        entry = "run" if len(self.sizes) == 2 else "run_planes"
        report = kernel(source, target, sizes, lower, upper, steps, at, offsets, 0, entry=entry)
        return report, target


# 3 x 3 taps with a margin: the first window begins at (-1, -1).
PLAIN = Copy((4, 5), (-1, -1), (-1, -1), (1, 1), (-1, -1), (1, 1))
APART = Copy((9, 7), (-2, 0), (0, -2), (2, 3), (0, 3), (1, 2))
OF_PLANES = Copy((3, 4, 5), (-1, 0, -1), (-1, -1, 0), (1, 2, 1), (0, 2, 3), (1, 1, 0))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "copy",
    [
        PLAIN,
        replace(PLAIN, offsets=(0, 0)),
        replace(PLAIN, offsets=(2, 2)),
        replace(PLAIN, at=(1, 2), offsets=(0, 2)),
        replace(PLAIN, at=(2, 3), image=2),  # behind the last image there are zeros
        replace(PLAIN, image=1, channels=128, channel=64, offsets=(2, 0)),
        replace(PLAIN, channels=96, channel=64),
        replace(PLAIN, images=1, offsets=(255, 0)),
        APART,
        replace(APART, at=(-2, 0), offsets=(0, 0)),
        replace(APART, at=(8, 3), image=1),
        OF_PLANES,
        replace(OF_PLANES, at=(-1, 0, -1), offsets=(0, 0, 0)),
        replace(OF_PLANES, offsets=(2, 1, 31), image=1),
    ],
)
def test_elements_of_windows(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, copy: Copy, seed: int
) -> None:
    runtime.configure(seed, check=True)
    report, tile = copy.launch(runtime, load_kernel(NAME, check=True))
    assert report is None
    np.testing.assert_array_equal(tile, copy.expected(copy.source()))


@pytest.mark.parametrize(
    ("copy", "says"),
    [
        (replace(PLAIN, at=(-1, -2)), "no window begins at -2 along dimension 1"),
        (replace(PLAIN, at=(3, -1)), "no window begins at 3 along dimension 2"),
        (replace(APART, at=(0, 4)), "no window begins at 4 along dimension 1"),
        (replace(APART, at=(1, 3)), "no window begins at 1 along dimension 2"),
        (replace(OF_PLANES, at=(2, 2, 3)), "no window begins at 2 along dimension 3"),
        (replace(OF_PLANES, at=(0, 1, 3)), "no window begins at 1 along dimension 2"),
        (replace(PLAIN, offsets=(0, 256)), "an offset of 256, and it must be 0 to 255"),
        (replace(PLAIN, offsets=(-1, 0)), "an offset of -1, and it must be 0 to 255"),
        (replace(OF_PLANES, offsets=(32, 0, 0)), "an offset of 32, and it must be 0 to 31"),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_what_no_window_has(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, copy: Copy, says: str, check: bool
) -> None:
    """Found with the checker and without."""
    runtime.configure(0, check=check)
    report, _ = copy.launch(runtime, load_kernel(NAME, check=check))
    assert report is not None
    assert says in report
    assert f"{NAME}.cu:" in report


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("OTHER_DIMENSIONS", "a copy of 5 dimensions by a tensor map of 4"),
        ("MISALIGNED_TILE", "at a multiple of 1024 bytes"),
        ("LOAD_NOT_AWAITED", "race: reads at .* what a bulk copy wrote|uninitialised: "),
    ],
)
def test_faults_of_copies(
    runtime: EmulatorRuntime, load_kernel: LoadKernel, fault: str, says: str
) -> None:
    assert_found_under_every_seed(
        runtime,
        load_kernel,
        NAME,
        fault,
        says,
        lambda kernel: PLAIN.launch(runtime, kernel)[0],
    )


def test_an_offset_off_by_one_shows_as_wrong_values(
    runtime: EmulatorRuntime, load_kernel: LoadKernel
) -> None:
    report, tile = PLAIN.launch(runtime, load_kernel(NAME, "OFFSET_OFF_BY_ONE"))
    assert report is None
    assert not np.array_equal(tile, PLAIN.expected(PLAIN.source()))
    beside = replace(PLAIN, offsets=(1, 2))
    np.testing.assert_array_equal(tile, beside.expected(beside.source()))


@pytest.mark.parametrize(
    ("offset", "channels", "pixels", "error"),
    [
        (0, 64, 9, NONE),
        (16, 72, 9, NONE),
        (0, 64, 2**31 - 1, NONE),
        (2, 64, 9, ADDRESS),
        (0, 68, 9, STRIDE),
        (0, 64, 0, SIZE),
        (0, 64, 2**31, SIZE),
    ],
)
def test_images_that_a_tensor_map_can_describe(
    load_kernel: LoadKernel, offset: int, channels: int, pixels: int, error: int
) -> None:
    encode = ctypes.CDLL(str(load_kernel(NAME).path)).encode
    encode.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 2]
    assert encode(1 << 20 | offset, channels, pixels) == error
