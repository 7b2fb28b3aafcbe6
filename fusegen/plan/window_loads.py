"""The elements of images under a convolution's kernel."""

from __future__ import annotations

from fusegen.ir.graph import TensorType
from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.expressions import WindowLoad
from fusegen.plan.window import Windows


def window_load(
    windows: Windows, buffer: Buffer, type: TensorType, place: tuple[Integer, ...]
) -> WindowLoad:
    """The element at `place`, (matrix, depth, *pixel), of what the windows make of `buffer`, a
    tensor of `type`."""
    matrix, depth, *pixel = place
    *sizes, channels = buffer.shape[1:]
    window, along = windows.window, windows.along
    kernel = along(window.kernel)
    taps = unflatten(depth // channels, tuple(map(Integer.of, kernel)))
    coordinates, guards = [matrix // windows.matrices], []
    for step, apart, margin, count, tap, at, size, shift in zip(
        *map(along, (window.stride, window.dilation, window.padding)),
        kernel,
        taps,
        pixel,
        sizes,
        windows.shifts(matrix),
        strict=True,
    ):
        from_first = count - 1 - tap if windows.turned else tap
        beyond = at * step + from_first * apart + shift  # counted from the margin's first place
        coordinates.append(beyond - margin)
        if margin or windows.turned:
            guards.append((Integer.of(margin), beyond, size + margin))
    for tap, first, phases, lag, count in zip(
        taps,
        windows.places(matrix),
        *map(along, (windows.phases, windows.lag, windows.taps)),
        strict=True,
    ):
        if phases > 1 and count % phases:
            guards.append((ZERO, (first + lag) % phases + tap * phases, Integer.of(count)))
    at_all = (*coordinates, depth % channels)
    return WindowLoad(
        type.dtype,
        buffer.name,
        buffer,
        at_all,
        flatten(at_all, buffer.shape),
        windows,
        type.shape[2:],
        place,
        tuple(guards),
    )
