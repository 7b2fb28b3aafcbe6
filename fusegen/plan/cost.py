"""What a kernel costs: bytes moved, operations, launches, and the time they take at least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.ir.integers import Integer


@dataclass(frozen=True)
class Device:
    """The rates the planner reckons with.

    `bandwidth` in bytes/s, `rate` in float operations/s outside the tensor cores, `product_rate`
    the same for the shared-memory tile of the matrix product, `tensor_rate` for 16-bit products on
    the tensor cores, `launch` in seconds a kernel,
    `processors` the number of multiprocessors, `shared_memory` in bytes a block can have.
    """

    bandwidth: float
    rate: float
    product_rate: float
    tensor_rate: float
    launch: float
    processors: int
    shared_memory: int


# An H100 SXM: 3.01 TB/s is a measured device copy; 132 processors of 128 lanes at 1.7 GHz, a
# fused multiply-add each, give 57 Tflop/s, of which a plain shared-memory tile reaches a third;
# cuBLAS was measured at 713 Tflop/s in bfloat16.
H100 = Device(
    bandwidth=3.0e12,
    rate=57e12,
    product_rate=18e12,
    tensor_rate=700e12,
    launch=2.5e-6,
    processors=132,
    shared_memory=227 * 1024,
)


@dataclass(frozen=True)
class Cost:
    """What one launch moves and computes; `occupancy` is the part of the device kept busy.

    `reads` and `writes` in bytes, `flops` in elementary operations, those of matrix products apart
    in `product_flops`, or in `tensor_flops` where the tensor cores do them.
    """

    reads: int
    writes: int
    flops: int
    product_flops: int = 0
    tensor_flops: int = 0
    occupancy: float = 1.0

    def floor(self, device: Device) -> float:
        """The least time the work takes, in seconds: bytes over bandwidth or operations over
        rate, whichever is longer."""
        return max(
            (self.reads + self.writes) / device.bandwidth,
            self.flops / device.rate
            + self.product_flops / device.product_rate
            + self.tensor_flops / device.tensor_rate,
        )

    def estimate(self, device: Device) -> float:
        """The time the planner reckons with, in seconds: the floor on the part of the device that
        is busy, and the launch."""
        return device.launch + self.floor(device) / self.occupancy


class SizeHints(Mapping[str, int]):
    """Values for symbolic sizes where the planner must guess: those given, else `default`."""

    def __init__(self, given: Mapping[str, int] | None = None, default: int = 1024) -> None:
        self._given = dict(given or {})
        self._default = default

    def __getitem__(self, name: str) -> int:
        return self._given.get(name, self._default)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def value(self, size: Integer) -> int:
        """A size's value under the hints."""
        return size.evaluate(self)
