"""`fusegen bench FILE`: how long each kernel takes and could take, and PyTorch beside it."""

from __future__ import annotations

import argparse
import json

from fusegen.cli import options

PEERS = ("compile", "max-autotune")


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "bench",
        help="time the kernels on the GPU",
        description="Build FILE's kernels, check them against PyTorch in float64, and time each on "
        "the GPU, with its bytes, operations and distance from the floor, and PyTorch beside them.",
    )
    options.add_file(parser)
    options.add_model(parser)
    options.add_arguments(parser)
    options.add_sizes(parser)
    options.add_dtype(parser)
    options.add_precision(parser)
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=["compile"],
        help="what to time beside eager: torch.compile as it is, and with mode max-autotune, which "
        "takes long to compile (default: compile)",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    with console.working(f"measuring {arguments.file}"):
        measured = compiler.bench(
            compiler.read_source(arguments.file),
            arguments=dict(arguments.arguments),
            model=arguments.model,
            sizes=dict(arguments.sizes),
            dtype=arguments.dtype,
            precision=arguments.precision,
            peers=arguments.peers,
        )
    text = json.dumps(measured.as_json(), indent=2) if arguments.json else measured.as_text()
    console.stdout().print(text)
    return 0 if measured.comparison.agrees else 1
