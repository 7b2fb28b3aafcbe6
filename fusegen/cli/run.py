"""`fusegen run FILE`: run the kernels on random inputs and compare with the reference."""

from __future__ import annotations

import argparse

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run the kernels and compare with PyTorch",
        description="Build FILE's kernels, run them on random inputs, and print how far they and "
        "PyTorch are from the float64 reference.",
    )
    options.add_specialisation(parser)
    options.add_target(parser, default=None)
    parser.add_argument(
        "--seed", type=options.parse_seed, default=0, help="seed of the inputs (default: 0)"
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    with console.working(f"running {arguments.file}"):
        comparison = compiler.run(
            compiler.read_source(arguments.file),
            **options.specialisation(arguments),
            target=arguments.target,
            seed=arguments.seed,
        )
    console.show(comparison, as_json=arguments.json)
    return 0 if comparison.agrees else 1
