"""What a kernel costs: bytes moved, operations, launches, and the time they take at least."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fusegen.ir.graph import Graph
from fusegen.ir.integers import Integer


@dataclass(frozen=True)
class Device:
    """The rates the planner reckons with.

    `bandwidth` in bytes/s, `rate` in float operations/s outside the tensor cores, `plain_tile_rate`
    what of these a matrix product on the plain shared-memory tile is reckoned with, `tensor_rate`
    and `tf32_rate` for products of 16-bit and of TF32 operands on the tensor cores, `library_rate`
    for PyTorch's convolutions of few channels, `launch` in seconds a kernel, `processors` the
    number of multiprocessors, `shared_memory` in bytes a block can have. Whether it `has_wgmma`
    tells that it is of compute capability 9.0, whose copies can follow a convolution's kernel.
    """

    bandwidth: float
    rate: float
    plain_tile_rate: float
    tensor_rate: float
    tf32_rate: float
    library_rate: float
    launch: float
    processors: int
    shared_memory: int
    has_wgmma: bool

    @property
    def issue_rate(self) -> float:
        """Instructions a second, those of all lanes; `rate` takes a fused multiply-add for two."""
        return self.rate / 2


# An H100 SXM: 3.01 TB/s is a measured device copy; 132 processors of 128 lanes at 1.7 GHz, a
# fused multiply-add each, give 57 Tflop/s; cuBLAS was measured at 713 Tflop/s in bfloat16 and 384
# in TF32, PyTorch's convolution of 8 and 16 channels at 21 to 35 in either. 18 Tflop/s in float32
# is what the plain tile reached when the choice between it and the split form was fitted
# (docs/notes/tensor-core-products.md, and `split_pays` in `split.cuh`), not what it reaches: 27 to
# 37 of a product of 2048 x 2048 x 2048 on an H200 (docs/notes/product-shapes.md).
H100 = Device(
    bandwidth=3.0e12,
    rate=57e12,
    plain_tile_rate=18e12,
    tensor_rate=700e12,
    tf32_rate=380e12,
    library_rate=25e12,
    launch=2.5e-6,
    processors=132,
    shared_memory=227 * 1024,
    has_wgmma=True,
)


def device_for(architectures: Iterable[str]) -> Device:
    """What the planner reckons with for kernels that are built for these architectures, such as
    `sm_90a`: an H100, but without what not all of them have."""
    return replace(H100, has_wgmma=all(name == "sm_90a" for name in architectures))


@dataclass(frozen=True)
class Cost:
    """What one launch moves and computes; `occupancy` is the part of the device kept busy.

    `reads` and `writes` in bytes, `flops` in elementary operations, those of matrix products apart
    in `plain_tile_flops`, or where the tensor cores do them in `tensor_flops` (16-bit operands) and
    `tf32_flops`, and PyTorch's in `library_flops`. `least_seconds` is the time it takes at least
    whatever these say, where that was measured.
    """

    reads: int
    writes: int
    flops: int
    plain_tile_flops: int = 0
    tensor_flops: int = 0
    tf32_flops: int = 0
    library_flops: int = 0
    occupancy: float = 1.0
    least_seconds: float = 0.0

    @property
    def operations(self) -> int:
        """All elementary operations, those of matrix products among them."""
        products = self.plain_tile_flops + self.tensor_flops + self.tf32_flops
        return self.flops + products + self.library_flops

    def floor(self, device: Device) -> float:
        """The least time the work takes, in seconds: bytes over bandwidth or operations over
        rate, whichever is longer."""
        return max(
            (self.reads + self.writes) / device.bandwidth,
            self.flops / device.rate
            + self.plain_tile_flops / device.plain_tile_rate
            + self.tensor_flops / device.tensor_rate
            + self.tf32_flops / device.tf32_rate
            + self.library_flops / device.library_rate,
        )

    def estimate(self, device: Device) -> float:
        """The time the planner reckons with, in seconds: the floor on the part of the device that
        is busy, and the launch."""
        return max(device.launch + self.floor(device) / self.occupancy, self.least_seconds)


class SizeHints(Mapping[str, int]):
    """Values for symbolic sizes where the planner must guess: those given, else `default`."""

    def __init__(self, given: Mapping[str, int] | None = None, default: int = 1024) -> None:
        self._given = dict(given or {})
        self._default = default

    @staticmethod
    def of(graph: Graph, given: Mapping[str, int] | None = None) -> SizeHints:
        """Hints for a graph: 1024 for its only symbolic size, 128 for each of several."""
        inputs = {s for node in graph.inputs for size in node.shape for s in size.symbols()}
        return SizeHints(given, default=1024 if len(inputs) <= 1 else 128)

    def __getitem__(self, name: str) -> int:
        return self._given.get(name, self._default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def value(self, size: Integer) -> int:
        """A size's value under the hints."""
        return size.evaluate(self)
