"""`fusegen compile FILE`: write and build a folder that runs without fusegen."""

from __future__ import annotations

import argparse
from pathlib import Path

from fusegen.cli import options


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "compile",
        help="write the kernels and build them",
        description="Write a folder with the CUDA C++, the binding and the Python module of FILE's "
        "model, and build it there. The folder needs no fusegen.",
    )
    options.add_file(parser)
    options.add_model(parser)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="DIR",
        type=Path,
        help="the folder to write (default: FILE's name without its ending)",
    )
    options.add_target(parser, default="cuda")
    parser.add_argument(
        "--arch",
        dest="architectures",
        metavar="ARCH",
        action="append",
        default=[],
        help="a GPU architecture such as sm_90a (may be given many times; default: that of this "
        "machine's GPUs, without one sm_80, sm_90a and sm_100)",
    )
    parser.add_argument(
        "--dtype",
        dest="dtypes",
        choices=options.DTYPES,
        action="append",
        default=[],
        help="a dtype of inputs and parameters that do not pin one (may be given many times; "
        "default: float32)",
    )
    parser.add_argument(
        "--precision",
        dest="precisions",
        choices=options.PRECISIONS,
        action="append",
        default=[],
        help="build float32 matrix products for this setting of "
        "torch.set_float32_matmul_precision, too (may be given many times; they are always built "
        "for highest)",
    )
    parser.add_argument(
        "--autocast",
        dest="autocasts",
        choices=("bfloat16", "float16"),
        action="append",
        default=[],
        help="build for a float32 module under torch.autocast to this dtype, too (may be given "
        "twice; PyTorch's own operations stand in otherwise)",
    )
    parser.add_argument(
        "--inference-only",
        action="store_true",
        help="leave out the operators that a training needs; PyTorch's own operations stand in",
    )
    options.add_arguments(parser)
    parser.add_argument(
        "--emit-only",
        action="store_true",
        help="write the sources and stop; needs no compiler",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen import compiler
    from fusegen.cli import console

    source = compiler.read_source(arguments.file)
    out = arguments.out or Path(arguments.file).with_suffix("")
    with console.working(f"compiling {arguments.file}"):
        compiler.compile_to_folder(
            source,
            out,
            arguments=dict(arguments.arguments),
            model=arguments.model,
            target=arguments.target,
            architectures=tuple(arguments.architectures),
            dtypes=tuple(arguments.dtypes) or (options.DTYPES[0],),
            precisions=tuple(arguments.precisions),
            autocasts=tuple(arguments.autocasts),
            inference_only=arguments.inference_only,
            emit_only=arguments.emit_only,
        )
    console.stdout().print(str(out))
    return 0
