"""Faults of other compilers in layouts and launches, L40 to L46, and B59: each with its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.testing.layouts import Layout, laid_out
from tests.accuracy import assert_within, measure
from tests.emulated import apply, build, graph, run, value


@pytest.mark.parametrize("layout", [Layout.CHANNELS_LAST, Layout.REVERSED_DIMS, Layout.EXPANDED])
def test_l40_every_layout_is_read_by_its_strides(layout: Layout) -> None:
    x, scale = value("x", "n", 6, "h", "w"), value("scale", 6, 1, 1)
    results = [
        apply("mul", x, scale),
        apply("softmax", x, dim=1),
        apply("group_norm", x, num_groups=3),
        apply("mean", x, dim=(2, 3)),
        apply("cat", x, apply("relu", x), dim=1),
    ]
    plain = torch.randn(2, 6, 5, 7, generator=torch.Generator().manual_seed(0))
    moved = laid_out(plain, layout)
    factor = torch.randn(6, 1, 1)
    for kernels in build([graph([x, scale], result) for result in results], check=True):
        (expected,) = kernels(moved.contiguous(), factor, check=True)
        (actual,) = kernels(moved, factor, check=True)
        torch.testing.assert_close(actual, expected)
        assert actual.is_contiguous()


def test_l42_an_empty_batch_leaves_the_next_call_alone() -> None:
    x, weight = value("x", "n", 6), value("weight", 4, 6)
    results = [
        apply("relu", x),
        apply("softmax", x, dim=1),
        apply("linear", x, weight),
        apply("amax", apply("linear", x, weight), dim=1),
    ]
    factor, full = torch.randn(4, 6), torch.randn(3, 6)
    for kernels in build([graph([x, weight], result) for result in results], check=True):
        (expected,) = kernels(full, factor, check=True)
        (empty,) = kernels(torch.empty(0, 6), factor, check=True)
        assert empty.shape == (0, *expected.shape[1:])
        assert torch.equal(kernels(full, factor, check=True)[0], expected)


FAR = 1 << 31


def test_l43_strides_beyond_32_bits() -> None:
    """Memory that is never touched costs nothing, so far elements can be read here."""
    storage = torch.empty(2 * FAR + 1, dtype=torch.uint8)
    tensor = storage.as_strided((3,), (FAR,))
    tensor.copy_(torch.tensor([3, 5, 7], dtype=torch.uint8))
    x = value("x", "n", dtype=DType.UINT8)
    results = [apply("bitwise_not", x), apply("amax", x, dim=0)]
    flipped, greatest = run(graph([x], *results), [tensor])
    assert flipped.tolist() == [252, 250, 248] and greatest.item() == 7


def test_l43_positions_beyond_32_bits() -> None:
    tensor = torch.empty(3, FAR + 8, dtype=torch.uint8)
    tensor[:, FAR:] = torch.arange(24, dtype=torch.uint8).reshape(3, 8)
    wide = value("x", 3, FAR + 8, dtype=DType.UINT8)
    last = apply("narrow", wide, dim=1, start=FAR, length=8)
    results = [apply("bitwise_not", last), apply("amin", last, dim=1)]
    flipped, least = run(graph([wide], *results), [tensor])
    assert torch.equal(flipped, ~tensor[:, FAR:]) and least.tolist() == [0, 8, 16]


@pytest.mark.gpu
def test_l43_results_beyond_32_bits(tmp_path: Path) -> None:
    import fusegen

    path = tmp_path / "wide.fuse"
    path.write_text("model Wide():\n    input x: float16[n, 65536]\n    return relu(x)\n")
    x = torch.randn(32_800, 65_536, dtype=torch.float16, device="cuda")
    result = fusegen.load(path)()(x)
    assert torch.equal(result[-3:], x[-3:].relu()) and torch.equal(result[:3], x[:3].relu())


def test_l45_two_reductions_share_a_kernel_without_a_race() -> None:
    short, long = value("x", 4, 5), value("x", 4, 1500)
    for x, shape in ((short, (4, 5)), (long, (4, 1500))):
        results = [
            apply("softmax", apply("layer_norm", x, normalized_shape=shape[1:]), dim=1),
            apply("sum", x, dim=1),
            apply("amax", x, dim=1),
        ]
        (kernels,) = build([graph([x], *results)], check=True)
        tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        first = kernels(tensor, check=True)
        for seed in range(1, 201 if shape == (4, 5) else 31):
            again = kernels(tensor, seed=seed, check=True)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("width", [1, 2, 3, 31, 33, 48, 63, 65, 96, 255, 1000, 1030, 2050])
def test_l46_every_lane_counts(width: int) -> None:
    rows = torch.arange(1.0, width + 1).expand(2, width)
    x, turned = value("x", "n", width), value("turned", width, "n")
    results = [apply("sum", x, dim=1), apply("amax", x, dim=1), apply("sum", turned, dim=0)]
    total, greatest, columns = run(graph([x, turned], *results), [rows, rows.t()], check=True)
    expected = width * (width + 1) / 2
    assert total.tolist() == columns.tolist() == [expected, expected]
    assert greatest.tolist() == [width, width]


def test_b59_zeros_are_no_result() -> None:
    """Each element of a wide softmax is nearly 0: an absolute tolerance would take zeros."""
    x = torch.randn(2, 393_216, generator=torch.Generator().manual_seed(0))
    exact = torch.softmax(x.double(), 1)
    assert exact.max() < 1e-3
    eager = torch.softmax(x, 1)
    assert_within([measure(eager.clone(), eager, exact, eager)])
    for wrong in (torch.zeros_like(eager), eager * 1.001, eager.roll(1)):
        with pytest.raises(AssertionError):
            assert_within([measure(wrong, eager, exact, eager)])


def test_b59_what_is_not_written_is_noticed() -> None:
    x = value("x", 8)
    (kernels,) = build([graph([x], apply("exp", x))], check=True)
    idle = type(kernels)(
        kernels.plan, {"exp": lambda *_: 0}, kernels.signatures, kernels.error_text
    )
    with pytest.raises(AssertionError, match="byte 0 of the result y was never written"):
        idle(torch.zeros(8), check=True)
    assert idle(torch.zeros(8))[0].isnan().all()
