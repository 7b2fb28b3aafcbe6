"""`fusegen tune FILE`: times the tiles that products can run on, and remembers the quickest."""

from __future__ import annotations

import argparse

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "tune",
        help="find the quickest tiles on this GPU",
        description="Build the products of FILE on all tiles that they can run on, time them on "
        "the GPU for several numbers of rows (or for those of --size), and remember the quickest "
        "in the cache folder: models that are built on such a card later take them. For all other "
        "numbers of rows the planner's own choice remains.",
    )
    options.add_specialisation(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console
    from fusegen.testing.alternatives import what_is_wrong

    with console.working(f"tuning {arguments.file}"):
        tuned = compiler.tune(
            compiler.read_source(arguments.file),
            **options.specialisation(arguments),
            judge=what_is_wrong,
        )
    console.show(tuned, as_json=arguments.json)
    return 0
