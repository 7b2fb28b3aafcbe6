"""`fusegen verify FILE`: property tests of the built kernels."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fusegen.cli import options
from fusegen.errors import FusegenError

if TYPE_CHECKING:
    from fusegen.testing.subject import Subject
    from fusegen.testing.verification import Verification

DEFAULT_EXAMPLES = 100
DEFAULT_SECONDS = 60.0
# A sanitizer makes kernels many times slower.
DEFAULT_SANITIZED = 8


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "verify",
        help="test the kernels on drawn sizes, layouts and values",
        description="Build FILE's kernels and run them on drawn sizes, dtypes, memory layouts and "
        "values, NaN and infinities among them, forward and backward. Every element is held "
        "against a float64 reference under a bound derived from the model, and two runs must agree "
        "to the bit. The smallest failing case found is printed as a program.",
    )
    options.add_file(parser)
    options.add_model(parser)
    options.add_arguments(parser)
    options.add_sizes(parser)
    parser.add_argument(
        "--dtype",
        dest="dtypes",
        choices=options.DTYPES,
        action="append",
        help="a dtype to test (may be given many times; default: float32, float16, bfloat16)",
    )
    options.add_target(parser, default=None)
    parser.add_argument(
        "--examples",
        metavar="N",
        type=options.parse_count,
        help=f"how many cases to draw at most (default: {DEFAULT_EXAMPLES}, and "
        f"{DEFAULT_SANITIZED} for each dtype with --sanitize)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=options.parse_seconds,
        default=DEFAULT_SECONDS,
        help=f"how long to go on at most, builds included (default: {DEFAULT_SECONDS:.0f})",
    )
    parser.add_argument(
        "--seed", type=options.parse_seed, default=0, help="seed of the cases (default: 0)"
    )
    parser.add_argument(
        "--forward-only",
        action="store_true",
        help="leave out the gradients, which a model for inference does not need",
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="instead of comparing, let NVIDIA's compute-sanitizer watch the kernels on a GPU: "
        "memcheck, racecheck, initcheck and synccheck; --seconds does not end it",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if find_spec("hypothesis") is None:
        raise FusegenError(
            "hypothesis, which draws the cases, is not installed", "pip install hypothesis"
        )
    if arguments.sanitize:
        return _sanitize(arguments)
    from fusegen.cli import console
    from fusegen.testing.subject import Subject
    from fusegen.testing.verification import verify

    subject = Subject.of(
        arguments.file,
        model=arguments.model,
        arguments=dict(arguments.arguments),
        target=arguments.target,
        forward_only=arguments.forward_only,
    )
    examples = arguments.examples or DEFAULT_EXAMPLES
    with console.counting(f"verifying {arguments.file}", examples) as progress:
        result = verify(
            subject,
            examples=examples,
            seconds=arguments.seconds,
            seed=arguments.seed,
            dtypes=arguments.dtypes or ("float32", "float16", "bfloat16"),
            sizes=dict(arguments.sizes),
            progress=progress,
        )
    if arguments.json:
        console.stdout().print(json.dumps(_as_json(result, subject), indent=2))
    else:
        console.stdout().print(_as_text(result, subject, arguments))
    return 0 if result.is_right else 1


def _sanitize(arguments: argparse.Namespace) -> int:
    from fusegen.cli import console
    from fusegen.testing.exercise import Exercise
    from fusegen.testing.sanitizing import as_text, sanitize

    if arguments.target == "emulate":
        raise FusegenError(
            "compute-sanitizer watches kernels on a GPU, not in the emulator",
            "leave out --sanitize: the emulator checks every access as well",
        )
    exercise = Exercise(
        file=arguments.file,
        model=arguments.model,
        arguments=dict(arguments.arguments),
        sizes=dict(arguments.sizes),
        forward_only=arguments.forward_only,
        dtypes=arguments.dtypes or ("float32", "float16", "bfloat16"),
        examples=arguments.examples or DEFAULT_SANITIZED,
        seed=arguments.seed,
    )
    with console.working(f"sanitizing {arguments.file}"):
        found = sanitize(exercise)
    reports = {each.tool: each.report or None for each in found}
    text = json.dumps(reports, indent=2) if arguments.json else as_text(found)
    console.stdout().print(text)
    return 1 if any(reports.values()) else 0


def _as_json(result: Verification, subject: Subject) -> dict[str, Any]:
    failure = None
    if result.failure:
        failure = {
            "case": repr(result.failure.case),
            "headline": result.failure.finding.headline,
            "details": result.failure.finding.details,
            "direction": result.failure.finding.direction.value,
            "parts_at": result.failure.parts_at,
        }
    return {
        "model": subject.chosen.name,
        "target": subject.target.value,
        "checked": result.checked,
        "unsuitable": result.unsuitable,
        "seconds": round(result.seconds, 3),
        "out_of_time": result.out_of_time,
        "backward": result.why_forward_only is None,
        "why_forward_only": result.why_forward_only,
        "right": result.is_right,
        "failure": failure,
    }


def _as_text(result: Verification, subject: Subject, arguments: argparse.Namespace) -> str:
    if not result.checked and result.failure is None:
        why = (
            f"the {arguments.seconds:g} s were over before a case was checked, builds included; "
            "give it more with --seconds"
            if result.out_of_time
            else f"PyTorch itself refuses all of the {result.unsuitable} cases that were drawn"
        )
        return f"{subject.chosen.name}: NOT VERIFIED: {why}"
    where = "on the GPU" if subject.device == "cuda" else "in the emulator"
    cases = f"{result.checked} case{'' if result.checked == 1 else 's'}"
    counted = f"{cases} {where} in {result.seconds:.0f} s"
    if result.unsuitable:
        counted += f" (and {result.unsuitable} that PyTorch itself refuses)"
    if result.failure is None:
        ended = "; the time was over before all were drawn" if result.out_of_time else ""
        only = result.why_forward_only
        both = "" if only else ", forward and backward"
        reason = f"\nonly the forward: {only}" if only else ""
        return f"{subject.chosen.name}: right in {counted}{both}{ended}{reason}"
    lines = [f"{subject.chosen.name}: WRONG, found in {counted}", "", str(result.failure)]
    return "\n".join([*lines, "", "To see it again:", "", *_program(result, subject, arguments)])


def _program(
    result: Verification, subject: Subject, arguments: argparse.Namespace
) -> tuple[str, ...]:
    """A Python program that runs the failing case alone."""
    assert result.failure is not None
    given = [repr(arguments.file)]
    if arguments.model:
        given.append(f"model={arguments.model!r}")
    if arguments.arguments:
        given.append(f"arguments={dict(arguments.arguments)!r}")
    given.append(f"target={subject.target.value!r}")
    return (
        "    from fusegen.testing import Case, Filled, Layout, Subject, Values, check_case",
        f"    subject = Subject.of({', '.join(given)})",
        f"    print(check_case(subject, {result.failure.case!r}))",
    )
