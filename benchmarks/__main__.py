"""`python -m benchmarks`: the five chains, checked and timed on this machine's GPU."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

import fusegen
from benchmarks.accuracy import exact, is_deterministic, overwrites_poison, relative_error
from benchmarks.chains import CHAINS, Chain
from benchmarks.timing import time_together

# A result may be at most this many times as far from float64 as eager's in the same dtype.
ERROR_FACTOR = 2.0
FRESH_INPUTS = 3


def main() -> int:
    """Measure what the command line asks for; 1 if a result is wrong."""
    options = _options()
    if not torch.cuda.is_available():
        print("the benchmarks need a GPU, and PyTorch finds none", file=sys.stderr)
        return 2
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    wanted = [c for c in CHAINS if not options.only or c.name in options.only]
    jobs = [(c, getattr(torch, name)) for c in wanted for name in options.dtype]
    console = Console(stderr=True)
    rows = []
    for chain, dtype in track(jobs, description="chains", console=console):
        rows.append(_measure(chain, dtype, options.peers))
    record = {"machine": _machine(), "rows": rows}
    Console().print(_table(rows))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(row["right"] for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[c.name for c in CHAINS], metavar="CHAIN")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--peers", nargs="*", default=["default", "max-autotune"])
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    return parser.parse_args()


def _measure(chain: Chain, dtype: torch.dtype, peers: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    plain = chain.plain().cuda().to(dtype)
    generated = fusegen.load(chain.file)().cuda().to(dtype)
    generated.load_state_dict(plain.state_dict())
    with torch.no_grad():
        errors = [_errors(plain, generated, chain, dtype) for _ in range(FRESH_INPUTS)]
        x = _input(chain, dtype)
        deterministic = is_deterministic(lambda: generated(x))
        complete = overwrites_poison(lambda: generated(x))
        zeros = relative_error(torch.zeros_like(plain(x)), exact(plain, x))
        candidates: dict[str, Callable[[], object]] = {
            "fusegen": lambda: generated(x),
            "eager": lambda: plain(x),
        }
        for mode in peers:
            torch._dynamo.reset()
            compiled = torch.compile(plain, mode=None if mode == "default" else mode)
            candidates[f"compile {mode}"] = _call(compiled, x)
        times = time_together(candidates)
    worst, eager = max(errors, key=lambda pair: pair[0] / pair[1])
    right = worst <= ERROR_FACTOR * eager < zeros and deterministic and complete
    return {
        "chain": chain.name,
        "dtype": str(dtype).removeprefix("torch."),
        "milliseconds": times,
        "error": worst,
        "eager error": eager,
        "error of zeros": zeros,
        "deterministic": deterministic,
        "complete": complete,
        "right": right,
    }


def _call(module: Callable[[Tensor], object], x: Tensor) -> Callable[[], object]:
    return lambda: module(x)


def _input(chain: Chain, dtype: torch.dtype) -> Tensor:
    return torch.rand(chain.input_shape, device="cuda").to(dtype)


def _errors(
    plain: nn.Module, generated: nn.Module, chain: Chain, dtype: torch.dtype
) -> tuple[float, float]:
    """The relative errors of the generated module and of eager, on a fresh input."""
    x = _input(chain, dtype)
    truth = exact(plain, x)
    return relative_error(generated(x), truth), relative_error(plain(x), truth)


def _machine() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="milliseconds, median; errors relative to float64")
    names = list(rows[0]["milliseconds"]) if rows else []
    for heading in ("chain", "dtype", *names, "error", "eager's", "right"):
        table.add_column(heading, justify="left" if heading in ("chain", "dtype") else "right")
    for row in rows:
        times = [f"{row['milliseconds'][name]:.3f}" for name in names]
        table.add_row(
            row["chain"],
            row["dtype"],
            *times,
            f"{row['error']:.1e}",
            f"{row['eager error']:.1e}",
            "yes" if row["right"] else "NO",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
