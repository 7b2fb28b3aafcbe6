"""nvcc takes what is emitted, for every architecture, without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.passes import pipeline
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.module import plan_module
from fusegen.plan.preferences import Preferences
from fusegen.runtime.toolchain import find_nvcc
from tests.codegen.golden_graphs import GOLDENS
from tests.emulated import (
    apply,
    compile_quietly,
    cuda_text,
    graph,
    joined_text,
    planned,
    session_folder,
    value,
)
from tests.kernels.families import FAMILIES, add, mul
from tests.kernels.test_normalised_operands import HINTS, SLOW_MEMORY, graph_of
from tests.kernels.test_operand_layouts import half, matmul
from tests.kernels.test_tile_widths import on_tiles

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.fuse"))
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")

pytestmark = pytest.mark.nvcc


def compile_for_all(text: str, path: Path) -> None:
    """Compile one text once for each architecture."""
    path.write_text(text, encoding="utf-8")
    codes = [f"-gencode=arch={a.replace('sm', 'compute')},code={a}" for a in ARCHITECTURES]
    include = f"-I{session_folder() / 'include'}"
    compile_quietly(
        find_nvcc().path,
        *("-std=c++17", "-O1", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror"),
        *codes,
        include,
        *("-c", path, "-o", path.with_suffix(".o")),
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_examples(path: Path, dtype: DType, tmp_path: Path) -> None:
    made = elaborate(parse(Source(path.name, path.read_text())), dtype=dtype).graph
    plan = plan_module(pipeline.run(made), dtype)
    compile_for_all(cuda_text(plan), tmp_path / "kernels.cu")


def test_goldens(tmp_path: Path) -> None:
    plans = [planned(graph()) for graph in GOLDENS.values()]
    compile_for_all(joined_text(plans), tmp_path / "kernels.cu")


def test_parts_of_k_are_multiplied_without_waiting(tmp_path: Path) -> None:
    """ptxas would say that it keeps the products from overlapping (C7514)."""
    dy, w, x = half("dy", "m", 4096), half("w", 4096, 1024), half("x", "m", 1024)
    mean, scale = half("mean", "m", 1), half("scale", "m", 1)
    gradient = matmul(dy, w)
    centred = apply("sub", mul(gradient, scale), mul(apply("sub", x, mean), scale))
    inputs = [dy, w, x, mean, scale]
    plan = planned(graph(inputs, add(mul(centred, scale), x), mul(gradient, x)))
    compile_for_all(cuda_text(on_tiles(plan, 64, parts=2)), tmp_path / "kernels.cu")


def test_normalised_operands(tmp_path: Path) -> None:
    """What is made of an operand between two steps does not keep their products from overlapping,
    either."""
    names = ("layer norm", "softmax", "a normalised right operand")
    graphs = [graph_of(name, DType.BFLOAT16) for name in names]
    plans = [planned(one, HINTS, device=SLOW_MEMORY) for one in graphs]
    plans += [on_tiles(plans[0], 256), on_tiles(plans[0], 128, parts=2)]
    compile_for_all(joined_text(plans), tmp_path / "kernels.cu")


@pytest.mark.parametrize("kind", [TileKind(192), TileKind(128), TileKind(128, 4)])
def test_kinds_of_tiles(kind: TileKind, tmp_path: Path) -> None:
    path = next(path for path in EXAMPLES if path.name == "l2_88.fuse")
    made = elaborate(parse(Source(path.name, path.read_text())), dtype=DType.BFLOAT16).graph
    only = Preferences(only=kind)
    plan = plan_module(pipeline.run(made), DType.BFLOAT16, preferences=only)
    compile_for_all(cuda_text(plan), tmp_path / "kernels.cu")


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT64])
def test_every_family(dtype: DType, tmp_path: Path) -> None:
    names = ("joined", "several reductions", "layer norm and residual", "one row", "attention")
    cases = [cases[name] for name in names for cases in FAMILIES.values() if name in cases]
    plans = [planned(case.graph(dtype), case.hints) for case in cases]
    compile_for_all(joined_text(plans), tmp_path / "kernels.cu")


def test_names_that_a_launch_has_itself(tmp_path: Path) -> None:
    """A user's tensors may be called like the variables of `FUSEGEN_LAUNCH`."""
    words = ("attributes", "config", "grants", "kernel", "known", "known_kernel", "launch")
    inputs = [value(word, 8, 8) for word in words]
    plan = planned(graph(inputs, apply("cat", *inputs, dim=1)))
    compile_for_all(cuda_text(plan), tmp_path / "kernels.cu")
