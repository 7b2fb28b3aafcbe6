"""Parses the command line, runs the command, and turns errors into messages and exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import fusegen
from fusegen.cli import bench, check, compile, doctor, explain, run, tune, verify
from fusegen.errors import FusegenError, SourceError

COMMANDS = (compile, check, explain, run, verify, bench, tune, doctor)

USERS_ERROR = 1
MISUSE = 2
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended: 128 + SIGINT."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: the process's arguments) spells and return its status.

    0: it did what was asked; 1: an error that is the user's to mend, with its message on stderr;
    2: the command line itself is wrong.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as exit_:  # argparse has printed the help, the version or its complaint
        return exit_.code if isinstance(exit_.code, int) else MISUSE
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except SourceError as error:
        from fusegen.cli.diagnostics import print_diagnostics

        print_diagnostics(error.filename, error.source, error.diagnostics)
        return USERS_ERROR
    except FusegenError as error:
        from fusegen.cli.diagnostics import print_error

        print_error(error)
        return USERS_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # as in `fusegen explain FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USERS_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fusegen",
        description="Compile a chain of tensor operations to fused CUDA kernels.",
    )
    parser.add_argument("--version", action="version", version=f"fusegen {fusegen.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser
