"""`fusegen explain FILE`: show the plan and the reasons for it."""

from __future__ import annotations

import argparse

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="show the plan",
        description="Show which operations of FILE share a kernel, what is left to a library, and "
        "why, with the bytes, the operations and the floor of each kernel.",
    )
    options.add_specialisation(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    source = compiler.read_source(arguments.file)
    explanation = compiler.explain(source, **options.specialisation(arguments))
    console.show(explanation, as_json=arguments.json)
    return 0
