"""`fusegen check FILE`: find every error in a source without generating anything."""

from __future__ import annotations

import argparse

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "check", help="find errors only", description="Find every error in FILE, and nothing else."
    )
    options.add_file(parser)
    options.add_model(parser)
    options.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler

    source = compiler.read_source(arguments.file)
    warnings = compiler.check(source, dict(arguments.arguments), arguments.model)
    if warnings:
        from fusegen.cli.diagnostics import print_diagnostics

        print_diagnostics(source.filename, source.text, warnings)
    return 0
