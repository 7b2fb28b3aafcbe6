"""`python -m benchmarks.memory`: memory-bound chains beside `clone` of as many bytes."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fusegen
from fusegen.runtime.timing import time_together

ELEMENTS = 1 << 27
WIDTHS = (32, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576)
# A result may be at most this far from float64, relative to its norm: rounding the result to the
# dtype, and float32's own error through the chain.
BOUND = {torch.float32: 2e-6, torch.bfloat16: 4e-3}


@dataclass(frozen=True)
class Chain:
    """A chain in the language and as PyTorch's own operations, without its parameters, which start
    as ones and zeros; the latter takes the model's arguments too."""

    source: str
    plain: Callable[..., Tensor]


CHAINS = {
    "softmax": Chain(
        """
model Softmax(width):
    input x: [rows, width]
    return softmax(x * 0.5, dim=-1) * 2
""",
        lambda x, width: F.softmax(x * 0.5, dim=-1) * 2,
    ),
    "log_softmax": Chain(
        """
model LogSoftmax(width):
    input x: [rows, width]
    return log_softmax(relu(x), dim=-1) * 0.5
""",
        lambda x, width: F.log_softmax(x.relu(), dim=-1) * 0.5,
    ),
    "layer_norm": Chain(
        """
model Norm(width):
    input x: [rows, width]
    norm = LayerNorm(width)
    return relu(x) |> norm |> silu
""",
        lambda x, width: F.silu(F.layer_norm(x.relu(), (width,))),
    ),
    "rms_norm": Chain(
        """
model Norm(width):
    input x: [rows, width]
    norm = RMSNorm(width, eps=1e-6)
    return x * 2 |> norm |> silu
""",
        lambda x, width: F.silu(F.rms_norm(x * 2, (width,), eps=1e-6)),
    ),
    "group_norm": Chain(
        """
model Groups(groups, channels, height):
    input x: [images, channels, height, height]
    norm = GroupNorm(groups, channels)
    return relu(x) |> norm |> silu
""",
        lambda x, groups, channels, height: F.silu(F.group_norm(x.relu(), groups)),
    ),
    "two operations": Chain(
        """
model Two():
    input x: [count]
    return relu(x) * 2
""",
        lambda x: x.relu() * 2,
    ),
    "ten operations": Chain(
        """
model Ten():
    input x: [count]
    return x * 2 + 1 |> sigmoid |> mul(x) |> tanh |> sub(0.5) |> relu |> square |> add(x) |> silu
""",
        lambda x: F.silu((torch.sigmoid(x * 2 + 1) * x).tanh().sub(0.5).relu().square() + x),
    ),
    "outer sum": Chain(
        """
model Outer(width):
    input x: [rows, width]
    return sum(x, dim=0)
""",
        lambda x, width: x.sum(0),
    ),
    "full sum": Chain(
        """
model Full(width):
    input x: [rows, width]
    return sum(x)
""",
        lambda x, width: x.sum(),
    ),
}


@dataclass(frozen=True)
class Case:
    """A chain at a shape in a dtype."""

    chain: str
    shape: tuple[int, ...]
    arguments: tuple[tuple[str, int], ...]
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """`softmax 4096x32768 bfloat16`."""
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.chain} {'x'.join(map(str, self.shape))} {dtype}"

    def input(self) -> Tensor:
        """Normally distributed numbers."""
        return torch.randn(self.shape, device="cuda", dtype=self.dtype)

    def plain(self, x: Tensor) -> Tensor:
        """PyTorch's own operations."""
        return CHAINS[self.chain].plain(x, **dict(self.arguments))


def cases() -> list[Case]:
    """Every case, in the order of the table."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for chain in ("softmax", "log_softmax", "layer_norm", "rms_norm"):
            for width in WIDTHS:
                shape = (ELEMENTS // width, width)
                found.append(Case(chain, shape, (("width", width),), dtype))
        for groups, channels, height in ((32, 32, 128), (8, 64, 64), (32, 512, 16), (8, 512, 8)):
            images = ELEMENTS // channels // height**2
            arguments = (("groups", groups), ("channels", channels), ("height", height))
            found.append(Case("group_norm", (images, channels, height, height), arguments, dtype))
        for chain in ("two operations", "ten operations"):
            for log in (20, 26, 30):
                found.append(Case(chain, (1 << log,), (), dtype))
        for width in (256, 1024, 8192):
            shape = (ELEMENTS // width, width)
            found.append(Case("outer sum", shape, (("width", width),), dtype))
        found.append(Case("full sum", (ELEMENTS // 4096, 4096), (("width", 4096),), dtype))
    return found


def module(case: Case, folder: Path) -> nn.Module:
    """The generated module of a case, on the GPU."""
    made: nn.Module = fusegen.load(_file(case.chain, folder))(**dict(case.arguments))
    return made.cuda().to(case.dtype)


def _file(chain: str, folder: Path) -> Path:
    return folder / f"{chain.replace(' ', '_')}.fuse"


def build(case: Case, folder: Path) -> None:
    """Have the module built, by the least call that does."""
    with torch.no_grad():
        module(case, folder)(torch.zeros((1, *case.shape[1:]), device="cuda", dtype=case.dtype))


def measure(case: Case, folder: Path, rounds: int, peer: bool) -> dict[str, object]:
    """Check a case against float64, and time it."""
    torch.manual_seed(0)
    x = case.input()
    generated = module(case, folder)
    with torch.no_grad():
        result = generated(x)
        moved = (x.numel() + result.numel()) * x.element_size()
        error = _error(case, x, result)
        repeated = torch.equal(result, generated(x))
        del result
        candidates: dict[str, Callable[[], object]] = {
            "fusegen": lambda: generated(x),
            "clone": lambda: x.clone(),
        }
        if peer:
            torch._dynamo.reset()
            compiled = torch.compile(case.plain)
            candidates["compile"] = lambda: compiled(x)
        times = time_together(candidates, rounds=rounds, warm_up=2)
    copied = 2 * x.numel() * x.element_size() / times["clone"]
    return {
        "case": case.name,
        "milliseconds": times,
        "share": moved / times["fusegen"] / copied,
        "error": error,
        "right": error <= BOUND[case.dtype] and repeated,
    }


def _error(case: Case, x: Tensor, result: Tensor) -> float:
    """The relative error of the first and last rows, or of everything where rows are summed."""
    if result.shape != x.shape:
        return _distance(result, case.plain(x.double()))
    if x.dim() == 1:
        ends = [slice(0, 1 << 20), slice(-(1 << 20), None)]
    else:
        few = max(1, (1 << 20) // (x.numel() // x.shape[0]))
        ends = [slice(0, few), slice(-few, None)]
    return max(_distance(result[end], case.plain(x[end].double())) for end in ends)


def _distance(result: Tensor, truth: Tensor) -> float:
    error = float((result.double() - truth).norm() / truth.norm())
    return error if error == error else float("inf")


def main() -> int:
    """Measure what the command line asks for; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="how the wanted cases' names begin")
    parser.add_argument("--peer", action="store_true", help="torch.compile beside it")
    parser.add_argument("--build", type=int, help="build only, with so many threads")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    wanted = [c for c in cases() if c.name.startswith(tuple(options.only))]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for chain, text in CHAINS.items():
            _file(chain, folder).write_text(text.source.lstrip())
        if options.build:
            with ThreadPoolExecutor(options.build) as pool:
                list(pool.map(lambda case: build(case, folder), wanted))
            return 0
        for case in wanted:
            row = measure(case, folder, options.rounds, options.peer)
            rows.append(row)
            times = " ".join(f"{k} {v:.3f}" for k, v in row["milliseconds"].items())
            verdict = "" if row["right"] else "  WRONG"
            print(
                f"{row['case']:42} {row['share']:.3f}  {times}  {row['error']:.1e}{verdict}",
                flush=True,
            )
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
