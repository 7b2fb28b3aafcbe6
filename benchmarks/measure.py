"""One row: the candidates of a case, checked against float64 and timed together."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.accuracy import (
    exact,
    exact_gradients,
    gradients,
    greatest_error,
    overwrites_poison,
    same_bits,
)
from benchmarks.case import Case, Mode, Precision
from benchmarks.ceilings import Clock, floor_milliseconds
from benchmarks.record import Row

# A result may be at most this many times as far from float64 as eager's in the same precision, and
# where eager is all but exact, this part of the dtype's epsilon in the norm.
ERROR_FACTOR = 2.0
ERROR_UNITS = 1 / 8
FRESH_INPUTS = 3

Compiler = Callable[[nn.Module], Callable[[Tensor], Any]]


@dataclass(frozen=True)
class Bench:
    """Where and how to measure: `clock` gives the GPU's time in ms and `host_clock` the host's in
    µs; `peers` compile a plain module, each within `peer_seconds`; `peak` gives the bytes that a
    call allocates at most."""

    device: str
    clock: Clock
    host_clock: Clock
    ceilings: Mapping[str, float]
    peers: Mapping[str, Compiler]
    peer_seconds: float | None = None
    peak: Callable[[Callable[[], object]], int] | None = None

    def measure(self, case: Case, precision: Precision, mode: Mode) -> Row:
        """The row of a case."""
        with precision.held(), torch.no_grad() if mode is Mode.FORWARD else nullcontext():
            return self._measure(case, precision, mode)

    def _measure(self, case: Case, precision: Precision, mode: Mode) -> Row:
        torch.manual_seed(0)
        with torch.device(self.device):
            plain = case.plain().to(precision.dtype)
            generated = case.generated().to(precision.dtype)
        generated.load_state_dict(plain.state_dict())
        errors = [
            self._errors(plain, generated, case, precision, mode) for _ in range(FRESH_INPUTS)
        ]
        error, eager = max(errors, key=lambda pair: pair[0] / (pair[1] or 1e-30))
        x = self._input(case, precision, mode)
        with torch.no_grad():
            (deterministic,) = same_bits(lambda: [generated(x)])
            complete = overwrites_poison(lambda: generated(x))
            result = plain(x)
        incoming = torch.randn_like(result)
        if mode is Mode.TRAINING:
            deterministic &= _repeats_as_eager(generated, plain, x, incoming)
        call = _calls(x, incoming, mode)
        candidates = {"fusegen": call(generated), "eager": call(plain)}
        refused = self._add_peers(candidates, plain, call)
        memory = {name: self.peak(one) for name, one in candidates.items()} if self.peak else {}
        for name, yardstick in case.beside.items():
            candidates[name] = _beside(yardstick, plain, x)
        size, work = _work(case, plain, x, result, mode)
        clock = self.host_clock if case.on_host else self.clock
        return Row(
            suite=case.suite,
            case=case.name,
            precision=precision.name,
            mode=mode.value,
            unit="us" if case.on_host else "ms",
            times=clock(candidates),
            refused=refused,
            bytes=size,
            operations=work,
            floor=None
            if case.on_host
            else floor_milliseconds(self.ceilings, precision.name, size, work),
            error=error,
            eager_error=eager,
            bound=max(ERROR_FACTOR * eager, ERROR_UNITS * torch.finfo(precision.dtype).eps),
            deterministic=deterministic,
            complete=complete,
            memory=memory,
        )

    def _add_peers(
        self,
        candidates: dict[str, Callable[[], object]],
        plain: nn.Module,
        call: Callable[[Callable[[Tensor], Any]], Callable[[], object]],
    ) -> dict[str, str]:
        """Compile each peer and add it; those that fail or take too long, with the reason."""
        refused = {}
        for name, compiler in self.peers.items():
            torch._dynamo.reset()
            try:
                with _within(self.peer_seconds):
                    candidate = call(_Compiled(plain, compiler(plain)))
                    candidate()
            except Exception as failure:
                refused[name] = (str(failure) or type(failure).__name__).partition("\n")[0][:200]
            else:
                candidates[name] = candidate
        return refused

    def _input(self, case: Case, precision: Precision, mode: Mode) -> Tensor:
        drawn = torch.rand(case.shape, device=self.device).to(precision.dtype)
        return drawn.requires_grad_(mode is Mode.TRAINING)

    def _errors(
        self, plain: nn.Module, generated: nn.Module, case: Case, precision: Precision, mode: Mode
    ) -> tuple[float, float]:
        """The relative errors of the generated module and of eager, on a fresh input."""
        x = self._input(case, precision, mode)
        if mode is Mode.FORWARD:
            truth = exact(plain, x)
            return greatest_error([generated(x)], [truth]), greatest_error([plain(x)], [truth])
        result = plain(x)
        incoming = torch.randn_like(result)
        truths = [exact(plain, x), *exact_gradients(plain, x, incoming)]
        return (
            greatest_error([generated(x), *gradients(generated, x, incoming)], truths),
            greatest_error([result, *gradients(plain, x, incoming)], truths),
        )


class _Compiled(nn.Module):
    """A compiled forward with the parameters of the plain module."""

    def __init__(self, plain: nn.Module, compiled: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.plain = plain
        self.compiled = compiled

    def __call__(self, x: Tensor) -> Any:
        return self.compiled(x)


def _calls(
    x: Tensor, incoming: Tensor, mode: Mode
) -> Callable[[Callable[[Tensor], Any]], Callable[[], object]]:
    """What makes a candidate of a module."""
    if mode is Mode.FORWARD:
        return lambda module: lambda: module(x)
    return lambda module: lambda: gradients(module, x, incoming)  # type: ignore[arg-type]


def _beside(
    yardstick: Callable[[nn.Module, Tensor], object], plain: nn.Module, x: Tensor
) -> Callable[[], object]:
    return lambda: yardstick(plain, x)


def _work(case: Case, plain: nn.Module, x: Tensor, result: Tensor, mode: Mode) -> tuple[int, int]:
    """The bytes and the products' operations of a call: each tensor is read and written once; a
    backward reads the result's gradient and all inputs again, and writes their gradients, with two
    products for one."""
    inputs = _bytes(x) + sum(map(_bytes, plain.parameters()))
    if mode is Mode.FORWARD:
        return inputs + _bytes(result), case.operations
    return inputs + _bytes(result) + _bytes(result) + 2 * inputs, 3 * case.operations


def _repeats_as_eager(generated: nn.Module, plain: nn.Module, x: Tensor, dy: Tensor) -> bool:
    """Whether each gradient has the same bits every time; one that a library computes need not
    where eager's, from the same library, has not."""
    ours, eager = (same_bits(lambda m=m: gradients(m, x, dy)) for m in (generated, plain))
    return all(a or not b for a, b in zip(ours, eager, strict=True))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    """TimeoutError when the block takes longer."""
    if seconds is None:
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not ready after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
