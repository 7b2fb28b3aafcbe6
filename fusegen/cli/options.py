"""The options that several commands share."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Constant = bool | int | float | str
"""The value of a model argument given with -D."""

GREATEST_SIZE = 2**63 - 1

DTYPES = ("float32", "float16", "bfloat16", "float64")

PRECISIONS = ("highest", "high", "medium")


class Specialisation(TypedDict):
    """What a command that works on one plan of a model takes, beside the source."""

    arguments: dict[str, Constant]
    model: str | None
    sizes: dict[str, int]
    dtype: str
    precision: str


def add_specialisation(parser: argparse.ArgumentParser) -> None:
    """FILE, and all that `specialisation` reads."""
    add_file(parser)
    add_model(parser)
    add_arguments(parser)
    add_sizes(parser)
    add_dtype(parser)
    add_precision(parser)


def specialisation(arguments: argparse.Namespace) -> Specialisation:
    """What was given for the options that `add_specialisation` adds."""
    return Specialisation(
        arguments=dict(arguments.arguments),
        model=arguments.model,
        sizes=dict(arguments.sizes),
        dtype=arguments.dtype,
        precision=arguments.precision,
    )


def add_file(parser: argparse.ArgumentParser) -> None:
    """FILE: the source to work on."""
    parser.add_argument("file", metavar="FILE", help="the .fuse source")


def add_model(parser: argparse.ArgumentParser) -> None:
    """--model; None leaves the choice to the program."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="the model to work on (default: the one that no other uses as a layer)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-D name=value, collected into `arguments.arguments` as (name, value) pairs."""
    parser.add_argument(
        "-D",
        dest="arguments",
        metavar="NAME=VALUE",
        type=parse_constant,
        action="append",
        default=[],
        help="set a model argument (may be given many times)",
    )


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """--size name=value, collected into `arguments.sizes` as (name, size) pairs."""
    parser.add_argument(
        "--size",
        dest="sizes",
        metavar="NAME=SIZE",
        type=parse_size,
        action="append",
        default=[],
        help="set a symbolic size, for example batch=1024 (may be given many times)",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """--dtype: the one dtype of inputs that do not pin theirs."""
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default=DTYPES[0],
        help="the dtype of inputs and parameters that do not pin one (default: float32)",
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """--precision: the one setting of float32 products."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="how float32 matrix products are computed, as for "
        "torch.set_float32_matmul_precision (default: highest)",
    )


def add_target(parser: argparse.ArgumentParser, default: str | None) -> None:
    """--target; `default` None leaves the choice to the command."""
    parser.add_argument(
        "--target",
        choices=("cuda", "emulate"),
        default=default,
        help="run on a GPU, or the same kernels in the emulator on the CPU "
        f"(default: {default or 'cuda if there is a GPU'})",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json: for programs to read."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def parse_constant(text: str) -> tuple[str, Constant]:
    """`name=value` with an integer, a float, true, false, or any other text."""
    name, value = _split(text)
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def parse_size(text: str) -> tuple[str, int]:
    """`name=size` with a size that PyTorch can have."""
    name, value = _split(text)
    if not value.isdecimal() or int(value) > GREATEST_SIZE:
        raise argparse.ArgumentTypeError(
            f"'{value[:40]}' is not a size: a whole number from 0 to {GREATEST_SIZE}"
        )
    return name, int(value)


def parse_seed(text: str) -> int:
    """A seed that PyTorch takes."""
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a seed: from 0 to {2**64 - 1}")
    return int(text)


def parse_count(text: str) -> int:
    """How many: a whole number from 1."""
    if not text.isdecimal() or not 0 < int(text) <= GREATEST_SIZE:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a count: a whole number from 1")
    return int(text)


def parse_seconds(text: str) -> float:
    """A duration above zero."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number of seconds above 0")
    return seconds


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name):
        raise argparse.ArgumentTypeError(f"'{text}' does not have the form NAME=VALUE")
    return name, value
