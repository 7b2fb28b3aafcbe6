"""`fusegen explain FILE`: show the plan and the reasons for it."""

from __future__ import annotations

import argparse
import json

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="show the plan",
        description="Show which operations of FILE share a kernel, what is left to a library, and "
        "why, with the bytes, the operations and the floor of each kernel.",
    )
    options.add_file(parser)
    options.add_model(parser)
    options.add_arguments(parser)
    options.add_sizes(parser)
    options.add_dtype(parser)
    options.add_precision(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    explanation = compiler.explain(
        compiler.read_source(arguments.file),
        arguments=dict(arguments.arguments),
        model=arguments.model,
        sizes=dict(arguments.sizes),
        dtype=arguments.dtype,
        precision=arguments.precision,
    )
    text = json.dumps(explanation.as_json(), indent=2) if arguments.json else explanation.as_text()
    console.stdout().print(text)
    return 0
