"""The elements of images under a convolution's kernel."""

from __future__ import annotations

from fusegen.ir.graph import TensorType
from fusegen.ir.integers import Integer
from fusegen.plan.buffers import Buffer
from fusegen.plan.coordinates import flatten, unflatten
from fusegen.plan.expressions import WindowLoad
from fusegen.plan.window import Windows


def window_load(
    windows: Windows, buffer: Buffer, type: TensorType, place: tuple[Integer, ...]
) -> WindowLoad:
    """The element at `place`, (image, depth, *pixel), of what the windows make of `buffer`, a
    tensor of `type`."""
    image, depth, *pixel = place
    *sizes, channels = buffer.shape[1:]
    window, along = windows.window, windows.along
    kernel = along(window.kernel)
    taps = unflatten(depth // channels, tuple(map(Integer.of, kernel)))
    if windows.turned:
        taps = tuple(count - 1 - tap for count, tap in zip(kernel, taps, strict=True))
    coordinates, guards = [image], []
    for step, apart, margin, tap, at, size in zip(
        *map(along, (window.stride, window.dilation, window.padding)),
        taps,
        pixel,
        sizes,
        strict=True,
    ):
        beyond = at * step + tap * apart  # counted from the margin's first place
        coordinates.append(beyond - margin)
        if margin:
            guards.append((Integer.of(margin), beyond, size + margin))
    coordinates.append(depth % channels)
    at_all = tuple(coordinates)
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
