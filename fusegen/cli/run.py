"""`fusegen run FILE`: run the kernels on random inputs and compare with the reference."""

from __future__ import annotations

import argparse
import json

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run the kernels and compare with PyTorch",
        description="Build FILE's kernels, run them on random inputs, and print how far they and "
        "PyTorch are from the float64 reference.",
    )
    options.add_file(parser)
    options.add_model(parser)
    options.add_arguments(parser)
    options.add_sizes(parser)
    options.add_dtype(parser)
    options.add_precision(parser)
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
            arguments=dict(arguments.arguments),
            model=arguments.model,
            sizes=dict(arguments.sizes),
            dtype=arguments.dtype,
            precision=arguments.precision,
            target=arguments.target,
            seed=arguments.seed,
        )
    text = json.dumps(comparison.as_json(), indent=2) if arguments.json else comparison.as_text()
    console.stdout().print(text)
    return 0 if comparison.agrees else 1
