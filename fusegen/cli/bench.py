"""`fusegen bench FILE`: how long each kernel takes and could take, and PyTorch beside it."""

from __future__ import annotations

import argparse

from fusegen.cli import options

PEERS = ("compile", "max-autotune")


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "bench",
        help="time the kernels on the GPU",
        description="Build FILE's kernels, check them against PyTorch in float64, and time each on "
        "the GPU, with its bytes, operations and distance from the floor, and PyTorch beside them.",
    )
    options.add_specialisation(parser)
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=["compile"],
        help="what to time beside eager: torch.compile as it is, and with mode max-autotune, which "
        "takes long to compile; put it after FILE (default: compile)",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    with console.working(f"measuring {arguments.file}"):
        measured = compiler.bench(
            compiler.read_source(arguments.file),
            **options.specialisation(arguments),
            peers=arguments.peers,
        )
    console.show(measured, as_json=arguments.json)
    return 0 if measured.comparison.agrees else 1
