"""The harness tells right from wrong before it times, and keeps what it has measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks import __main__ as command
from benchmarks.case import PRECISIONS, Case, Mode
from benchmarks.ceilings import bandwidth, product_rate
from benchmarks.measure import Bench
from benchmarks.record import Record, Row
from benchmarks.suites import SUITES, convolutions, transformers
from benchmarks.suites.programs import maker

PROGRAM = "model M():\n    input x: [rows, 8]\n    fc = Linear(8, 4)\n    return relu(fc(x))\n"
FORWARD, TRAINING = Mode.FORWARD, Mode.TRAINING


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x))


class Zeros(Plain):
    """The fastest kernel of all."""

    def forward(self, x: Tensor) -> Tensor:
        return 0 * super().forward(x)


class Unwritten(Plain):
    """Returns the memory it was given as it is: right once, from the call before."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        self.calls += 1
        # The last calls are those with poisoned memory.
        return torch.full_like(result, torch.nan) if self.calls > 24 else result


class Unsteady(Plain):
    """Sums in another order each time."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + torch.rand(()) * 1e-7)


class WrongGradient(Plain):
    """Right in the forward, without the weight's part in the backward."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach() + 0.5 * (x - x.detach()))


def clock(candidates: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Calls each candidate once, and says that it took as long as its name."""
    for call in candidates.values():
        call()
    return {name: float(len(name)) for name in candidates}


BENCH = Bench("cpu", clock, clock, {"bandwidth": 1e9, "float32": 1e12}, {})


def case(generated: Callable[[], nn.Module] = Plain, **changes: Any) -> Case:
    return replace(Case("toys", "toy", Plain, generated, (6, 8), 2 * 6 * 8 * 4), **changes)


def row(generated: Callable[[], nn.Module], mode: Mode = FORWARD) -> Row:
    return BENCH.measure(case(generated), PRECISIONS["float32"], mode)


@pytest.mark.parametrize("mode", [FORWARD, TRAINING])
def test_what_is_right_is_right(mode: Mode) -> None:
    assert row(Plain, mode).right


@pytest.mark.parametrize("generated", [Zeros, Unwritten, Unsteady])
def test_what_is_wrong_is_wrong(generated: Callable[[], nn.Module]) -> None:
    assert not row(generated).right


def test_zeros_fail_however_bad_eager_is() -> None:
    assert not replace(row(Zeros), eager_error=1.0, bound=2.0).right


def test_a_wrong_gradient_is_wrong_in_training_only() -> None:
    assert row(WrongGradient).right
    assert not row(WrongGradient, TRAINING).right


def test_peak_of_each_candidate() -> None:
    calls: list[object] = []

    def peak(call: Callable[[], object]) -> int:
        calls.append(call())
        return len(calls)

    found = replace(BENCH, peak=peak).measure(case(), PRECISIONS["float32"], TRAINING)
    assert found.memory == {"fusegen": 1, "eager": 2}
    assert not row(Plain).memory


def test_bytes_operations_and_floor() -> None:
    """48 inputs, 36 parameters and 24 results of 4 bytes; in training all of them again, and the
    inputs' and parameters' gradients."""
    forward, training = row(Plain), row(Plain, TRAINING)
    assert (forward.bytes, forward.operations) == (4 * (84 + 24), 384)
    assert (training.bytes, training.operations) == (4 * (3 * 84 + 2 * 24), 3 * 384)
    assert forward.floor == pytest.approx(432 / 1e9 * 1e3)
    assert forward.of_floor("fusegen") == pytest.approx(432e-6 / 7)
    busy = replace(BENCH, ceilings={"bandwidth": 1e9, "float32": 1e8})
    assert busy.measure(case(), PRECISIONS["float32"], FORWARD).floor == pytest.approx(3.84e-3)


def test_peers_that_fail_or_dawdle_are_left_out() -> None:
    def fails(module: nn.Module) -> Any:
        raise ValueError("no\nhow")

    def dawdles(module: nn.Module) -> Any:
        time.sleep(5)

    bench = replace(
        BENCH,
        peers={"compile": lambda module: module, "max-autotune": fails},
        peer_seconds=0.1,
    )
    found = bench.measure(case(), PRECISIONS["float32"], TRAINING)
    assert list(found.times) == ["fusegen", "eager", "compile"]
    assert found.refused == {"max-autotune": "no"}
    assert found.best_peer == ("eager", 5.0)
    found = replace(bench, peers={"compile": dawdles}).measure(
        case(), PRECISIONS["float32"], FORWARD
    )
    assert found.refused == {"compile": "not ready after 0.1 s"}


def test_the_hosts_time_has_no_floor() -> None:
    found = BENCH.measure(case(on_host=True), PRECISIONS["bfloat16"], FORWARD)
    assert (found.unit, found.floor, found.of_floor("eager")) == ("us", None, None)


def test_yardsticks_are_timed() -> None:
    beside = {"clone": lambda plain, x: x.clone()}
    found = BENCH.measure(case(beside=beside), PRECISIONS["float32"], FORWARD)
    assert found.times["clone"] == 5.0 and found.best_peer == ("eager", 5.0)


def test_precision_holds_within_and_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    seen = []

    class Asks(Plain):
        def forward(self, x: Tensor) -> Tensor:
            seen.append((torch.get_float32_matmul_precision(), x.dtype))
            return super().forward(x)

    bench = replace(BENCH, ceilings={"bandwidth": 1e9, "tf32": 1e12})
    bench.measure(case(Asks), PRECISIONS["tf32"], FORWARD)
    assert set(seen) == {("high", torch.float32)}
    assert torch.get_float32_matmul_precision() == before


def test_a_run_resumes_where_it_was_killed(tmp_path: Path) -> None:
    output = tmp_path / "results" / "run.json"
    jobs = [
        (case(name=name), PRECISIONS["float32"], mode)
        for name in ("one", "two")
        for mode in (FORWARD, TRAINING)
    ]

    class Killed(Exception):
        pass

    calls = 0

    def dies(candidates: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Killed
        return clock(candidates)

    record = Record({"card": "none"}, {"bandwidth": 1e9, "float32": 1e12})
    with pytest.raises(Killed):
        command.run(jobs, record, replace(BENCH, clock=dies), output)
    kept = Record.read(output)
    assert [r.key[1::2] for r in kept.rows] == [
        ("one", "forward"),
        ("one", "training"),
        ("two", "forward"),
    ]
    assert kept.ceilings == record.ceilings
    command.run(jobs, kept, BENCH, output)
    assert len(Record.read(output).rows) == 4
    assert [path.name for path in output.parent.iterdir()] == ["run.json"]
    assert json.loads(output.read_text())["rows"][:3] == [vars(r) for r in kept.rows[:3]]


def test_ceilings() -> None:
    """The clock's milliseconds are the names' lengths: clone and product."""
    assert bandwidth(clock, "cpu", 1000) == pytest.approx(2 * 1000 / 5e-3)
    rate = product_rate(PRECISIONS["bfloat16"], clock, "cpu", 8)
    assert rate == pytest.approx(2 * 8**3 / 7e-3)


def test_generated_modules_have_the_plain_ones_state() -> None:
    """Every case of every suite that is small enough to make here: its program is one, and its
    parameters are those of the plain module."""
    for name, suite in SUITES.items():
        for found in suite():
            with torch.device("meta"):
                plain, generated = found.plain(), found.generated()
            shapes = {key: value.shape for key, value in plain.state_dict().items()}
            made = {key: value.shape for key, value in generated.state_dict().items()}
            assert made == shapes, f"{name}: {found.name}"


def test_memory_chains_are_what_the_plain_ones_compute() -> None:
    """A CPU tensor is computed by PyTorch, as the program has it."""
    torch.manual_seed(0)
    for found in SUITES["memory"]():
        if len(found.shape) == 2 and found.shape[1] > 256:
            continue
        x = torch.randn(2, *found.shape[1:]) if len(found.shape) > 1 else torch.randn(64)
        with torch.no_grad():
            torch.testing.assert_close(found.generated()(x), found.plain()(x))


@pytest.mark.parametrize(
    ("plain", "generated", "shape"),
    [
        (
            transformers.Attention(6, 2),
            maker(transformers.ATTENTION, time=6, width=8, heads=2),
            (3, 6, 24),
        ),
        (
            transformers.Attention(None, 2),
            maker(transformers.UNMASKED, time=6, width=8, heads=2),
            (3, 6, 24),
        ),
        (
            transformers.Block(6, 8, 2, 12),
            maker(transformers.BLOCK, time=6, width=8, heads=2, hidden=12),
            (3, 6, 8),
        ),
        (transformers.Gated(), maker(transformers.GATED, width=5), (4, 10)),
        (
            transformers.LinearGeluNorm(5, 7),
            maker(transformers.LINEAR_GELU_NORM, width=5, features=7),
            (4, 5),
        ),
        (
            convolutions.Planes(3, 4),
            maker(convolutions.PLANES, channels=3, features=4),
            (2, 3, 4, 5, 6),
        ),
        (
            convolutions.SpreadPlanes(3, 4),
            maker(convolutions.SPREAD_PLANES, channels=3, features=4),
            (2, 3, 2, 3, 4),
        ),
        (
            convolutions.Images(3, 4),
            maker(convolutions.IMAGES, channels=3, features=4),
            (2, 3, 5, 6),
        ),
        (
            convolutions.SpreadImages(3, 4),
            maker(convolutions.SPREAD_IMAGES, channels=3, features=4),
            (2, 3, 5, 6),
        ),
        (
            convolutions.Residual(4).eval(),
            lambda: maker(convolutions.RESIDUAL, channels=4)().eval(),
            (2, 4, 5, 6),
        ),
        (
            convolutions.Standardised(5),
            maker(convolutions.STANDARDISED, features=5),
            (4, 5),
        ),
    ],
    ids=[
        *("attention", "attention without a mask", "block", "gated", "linear gelu norm"),
        *("planes", "spread planes", "images", "spread images", "residual"),
        "standardised",
    ],
)
def test_programs_are_what_the_plain_ones_compute(
    plain: nn.Module, generated: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    """A CPU tensor is computed by PyTorch, as the program has it."""
    torch.manual_seed(1)
    module, x = generated(), torch.randn(shape)
    module.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(module(x), plain(x))


def test_a_programs_maker_takes_arguments() -> None:
    module = maker("model M(n):\n    input x: [n]\n    return x + n\n", n=3)()
    assert torch.equal(module(torch.zeros(3)), torch.full((3,), 3.0))
