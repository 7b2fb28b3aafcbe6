"""User names in kernels: whatever they are, the text compiles and means the same."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from fusegen import resources
from fusegen.codegen.names import RESERVED, Names, identifier, snake_case
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan import convolution_products
from fusegen.plan.attention_limits import stores_no_scores
from fusegen.plan.cost import H100
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.epilogues import GroupEpilogue
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.plan.module import plan_module
from tests.emulated import apply, build, compiles, graph, planned, run, value
from tests.kernels.test_tile_widths import on_tiles
from tests.reference import evaluate


def words_of_the_text(*, headers: bool = True) -> list[str]:
    """Every name that the skeletons and, with `headers`, the device headers use, outside of
    comments, and some that C and CUDA do; not those that are reserved, which no user's name
    becomes."""
    names = [name for name in resources.template_names() if not name.startswith("module")]
    texts = [resources.template(name) for name in (*names, "module.cu.j2")]
    texts += resources.include_files().values() if headers else ()
    others = {"unix", "linux", "errno", "NULL", "assert", "signbit", "min", "max", "y0"}
    return sorted({*words_in(texts)} | others - RESERVED)


def words_in(texts: list[str]) -> list[str]:
    """The names in some texts, outside of comments, that are not reserved."""
    code = re.sub(r"//.*|\{#(?s:.*?)#\}", "", "\n".join(texts))
    return sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", code)) - RESERVED)


WORDS_AT_ONCE = 40


def chain(inputs: list[Node], names: list[str]) -> Node:
    """The product of all inputs, every step of it named."""
    result = inputs[0]
    for operand, name in zip(inputs[1:], names, strict=False):
        result = replace(apply("mul", result, apply("abs", operand)), name=name)
    return result


def test_every_word_of_the_kernels_may_be_a_users_name() -> None:
    words = words_of_the_text()
    plans = []
    for start in range(0, len(words), WORDS_AT_ONCE):
        some = words[min(start, len(words) - WORDS_AT_ONCE) :][:WORDS_AT_ONCE]
        inputs = [value(word, 8, 8) for word in some]
        joined = apply("cat", *inputs, dim=1)
        product = apply("matmul", inputs[0], value("right", 8, 8 * WORDS_AT_ONCE))
        plans.append(planned(graph(inputs, chain(inputs, some))))
        plans.append(planned(graph(inputs, apply("softmax", joined, dim=1))))
        plans.append(planned(graph([*inputs, product.operands[1]], apply("add", product, joined))))
        plans += tensor_core_plans(some)
    compiles(plans)


def tensor_core_plans(words: list[str]) -> list[ModulePlan]:
    """Products for the tensor cores whose every operand and step has one of the names."""
    inputs = [value(word, 8, 8, dtype=DType.BFLOAT16) for word in words]
    transposed = apply("transpose", inputs[1], dim0=0, dim1=1)
    result = chain([apply("matmul", inputs[0], transposed), *inputs], words)
    plans = [planned(graph(inputs, r)) for r in (result, apply("softmax", result, dim=1))]
    for plan in plans:
        (step,) = plan.steps
        assert isinstance(step, ProductPlan) and step.tensor_cores is not None
    return plans


def test_every_word_of_the_kernels_may_be_a_users_name_in_split_products() -> None:
    words = words_of_the_text()
    plans = []
    at_once = 4 * WORDS_AT_ONCE  # each of these kernels takes seconds to compile
    for start in range(0, len(words), at_once):
        some = words[min(start, len(words) - at_once) :][:at_once]
        left, right = (value(word, 1024, 1024) for word in some[:2])
        inputs = [value(word, 1024, 1024) for word in some[2:]]
        product = apply("matmul", left, apply("transpose", right, dim0=0, dim1=1))
        result = chain([product, *inputs], some[2:])
        plans.append(planned(graph([left, right, *inputs], result)))
        (step,) = plans[-1].steps
        assert isinstance(step, ProductPlan) and step.tensor_cores and step.tensor_cores.split
    compiles(plans)


def test_every_word_of_the_kernels_may_be_a_users_name_in_other_forms() -> None:
    """Operands that are made as they are loaded, on tiles whose K is one or in parts, a K that
    blocks of the shared-memory tile share, and sums over rows that come ahead."""
    words = words_of_the_text(headers=False)
    plans = []
    at_once = 4 * WORDS_AT_ONCE
    for start in range(0, len(words), at_once):
        some = words[min(start, len(words) - at_once) :][:at_once]
        plans += [prepared_plan(some), shared_plan(some)]
        plans += [summing_plan(some, width) for width in (512, 1024)]
    compiles(plans)


def test_every_word_of_convolutions_and_tiles_may_be_a_users_name() -> None:
    files = ("convolution.cu.j2", "turned_tiles.j2", "elementwise.cu.j2", "parts.j2")
    words = words_in([resources.template(f"kernels/{name}") for name in files])
    plans = []
    for start in range(0, len(words), WORDS_AT_ONCE):
        some = words[min(start, len(words) - WORDS_AT_ONCE) :][:WORDS_AT_ONCE]
        plans += [convolution_plan(some, dtype) for dtype in (DType.FLOAT32, DType.BFLOAT16)]
        plans.append(turning_plan(some))
    compiles(plans)


def test_every_word_of_windows_may_be_a_users_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tiles of which warpgroups have columns, with zeros that have no part, and staged."""
    monkeypatch.setattr(convolution_products, "_pays", lambda *_: True)
    monkeypatch.setattr(convolution_products, "_reads_few", lambda *given: False)
    files = ["product.cu.j2", "skipped.j2", "tensor_product.cu.j2"]
    files += [f"tensor_{part}.j2" for part in ("epilogue", "loader", "main_loop")]
    words = words_in([resources.template(f"kernels/{name}") for name in files])
    plans = []
    for start in range(0, len(words), WORDS_AT_ONCE):
        plans.append(window_plan(words[min(start, len(words) - WORDS_AT_ONCE) :][:WORDS_AT_ONCE]))
    compiles(plans)


def window_plan(words: list[str]) -> ModulePlan:
    x = value(words[0], "n", 64, 5, 5, dtype=DType.BFLOAT16)
    weight = value(words[1], 64, 8, 3, 3, dtype=DType.BFLOAT16)
    scales = [value(word, 8, 5, 5, dtype=DType.BFLOAT16) for word in words[2:]]
    made = apply("conv_transpose2d", x, weight, padding=1)
    plan = planned(graph([x, weight, *scales], scaled(made, scales)))
    product = plan.steps[-1]
    assert isinstance(product, ProductPlan) and product.skipped and product.tensor_cores
    assert product.tensor_cores.is_beside
    assert product.tensor_cores.exchange is Exchange.THROUGH_SHARED
    return plan


def convolution_plan(words: list[str], dtype: DType) -> ModulePlan:
    """Of planes, and transposed."""
    x = value(words[0], "n", 3, 4, 8, 8, dtype=dtype)
    weight = value(words[1], 3, 8, 3, 3, 3, dtype=dtype)
    scales = [value(word, 8, 1, 1, 1, dtype=dtype) for word in words[2:]]
    made = apply("conv_transpose3d", x, weight, stride=2, padding=1)
    plan = planned(graph([x, weight, *scales], scaled(made, scales)))
    (step,) = plan.steps
    assert isinstance(step, ConvolutionPlan) and step.window.is_spread
    return plan


def turning_plan(words: list[str]) -> ModulePlan:
    """Of an image with its channels last, and of what two channels of a vector have."""
    last = [value(word, "n", 5, 5, 64) for word in words[:2]]
    scales = [value(word, 64, 1, 1) for word in words[2:]]
    second = [apply("permute", x, dims=(0, 3, 1, 2)) for x in last]
    plan = planned(graph([*last, *scales], scaled(second[0], [*second[1:], *scales])))
    (step,) = plan.steps
    assert isinstance(step, ElementwisePlan) and step.tiles is not None
    return plan


def scaled(result: Node, factors: list[Node]) -> Node:
    """The product of all, every step of it named as its factor."""
    for factor in factors:
        result = replace(apply("mul", result, factor), name=factor.name)
    return result


def summing_plan(words: list[str], width: int) -> ModulePlan:
    """By parts of a warp, and of a block."""
    inputs = [value(word, "b", width) for word in words[:2]]
    scales = [value(word, width) for word in words[2:]]
    result = chain([*inputs, *scales], words)
    results = apply("softmax", result, dim=1), apply("sum", result, dim=0)
    plan = planned(graph([*inputs, *scales], *results), {"b": 1 << 16})
    first, _ = plan.steps
    assert isinstance(first, RowPlan) and first.forms[0].ahead is not None
    mapping = RowMapping.WARP if width == 512 else RowMapping.PART
    assert first.forms[0].mapping is mapping and first.sum_rows == 1
    return plan


def prepared_plan(words: list[str]) -> ModulePlan:
    x = value("x", "m", 2048, dtype=DType.BFLOAT16)
    right = value("w", 2048, 2048, dtype=DType.BFLOAT16)
    scales = [value(word, 2048, dtype=DType.BFLOAT16) for word in words]
    product = apply("matmul", chain([x, *scales], words), right)
    one = graph([x, right, *scales], chain([product, *scales], words))
    plan = planned(one, device=replace(H100, launch=1.0))
    (whole,), (shared,) = (on_tiles(plan, 64, parts=parts).steps for parts in (1, 4))
    assert isinstance(whole, ProductPlan) and whole.left_prologue is not None
    assert isinstance(shared, ProductPlan) and shared.tensor_cores is not None
    return replace(plan, steps=(replace(whole, alternatives=(shared.tensor_cores,)),))


def shared_plan(words: list[str]) -> ModulePlan:
    dy, x = value("dy", "k", 64), value("x", "k", 64)
    scales = [value(word, 64) for word in words]
    product = apply("matmul", apply("transpose", dy, dim0=0, dim1=1), x)
    plan = planned(graph([dy, x, *scales], chain([product, *scales], words)))
    (step,) = plan.steps
    assert isinstance(step, ProductPlan) and step.shared_depth is not None
    return plan


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_numbered_names_of_the_kernels_may_be_a_users_names(dtype: DType) -> None:
    inputs = [value(name, 8, 8, dtype=dtype) for name in ("kept_1", "tile_1", "cache_1", "cache_0")]
    transposed = apply("transpose", inputs[1], dim0=0, dim1=1)
    result = apply("gelu", chain([apply("matmul", inputs[0], transposed), *inputs], ["a"]))
    normed = apply("group_norm", result, num_groups=1)
    plan = planned(graph(inputs, apply("add", normed, result.operands[0])))
    (step,) = plan.steps
    assert isinstance(step, ProductPlan) and isinstance(step.epilogue, GroupEpilogue)
    assert len(step.epilogue.program.slots) == 2
    compiles([plan])


def test_names_that_are_taken_mean_the_users_values() -> None:
    inputs = [value(word, 8, 8) for word in ("convert", "NAN", "float", "row", "Strides", "tile")]
    product = apply("matmul", inputs[0], chain(inputs[1:], ["fusegen", "vector", "element"]))
    one = graph(inputs, apply("softmax", chain([product, *inputs], ["column", "exp"]), dim=1))
    tensors = [torch.rand(8, 8) + 0.5 for _ in inputs]
    (expected,) = evaluate(one.roots, dict(zip(inputs, tensors, strict=True)))
    torch.testing.assert_close(run(one, tensors, check=True)[0], expected)


@pytest.mark.parametrize("family", ["elementwise", "rows", "product", "split product"])
def test_tensors_may_have_the_names_of_kernels(family: str) -> None:
    def plan(names: list[str]) -> ModulePlan:
        size = 1024 if family == "split product" else 8
        inputs = [value(name, size, size) for name in names]
        last = chain(inputs[2:], ["y"])
        if "product" in family:
            right = apply("transpose", inputs[1], dim0=0, dim1=1)
            last = apply("add", apply("matmul", inputs[0], right), last)
        if family == "rows":
            last = apply("softmax", last, dim=1)
        return planned(graph(inputs, last))

    (step,) = plan(["a", "b", "c", "d"]).steps
    functions = ["kernel", "few_kernel", "block_kernel", "split_left_kernel"]
    names = [f"{step.name}_0_{function}" for function in functions]  # the first that is compiled
    for found in map(plan, (names, names[::-1])):
        assert [same.name for same in found.steps] == [step.name]
        compiles([found])


def test_tensors_may_have_the_names_of_strides() -> None:
    """In either order, in kernels and in what calls them."""
    for names in (["x", "x_strides"], ["x_strides", "x"]):
        inputs = [value(name, 8, 8) for name in names]
        one = graph(inputs, chain(inputs, ["y"]))
        tensors = [torch.rand(8, 8) + 0.5 for _ in inputs]
        (expected,) = evaluate(one.roots, dict(zip(inputs, tensors, strict=True)))
        torch.testing.assert_close(run(one, tensors, check=True)[0], expected)


@pytest.mark.parametrize("family", ["elementwise", "rows", "product"])
def test_sizes_may_have_the_names_of_loop_variables(family: str) -> None:
    for names in (("row", "column"), ("index", "first"), ("depth", "batch_index"), ("rows", "n")):
        x = value("x", *names)
        square = apply("matmul", x, apply("transpose", x, dim0=0, dim1=1))
        result = {
            "elementwise": apply("exp", apply("permute", x, dims=(1, 0))),
            "rows": apply("softmax", x, dim=1),
            "product": apply("softmax", square, dim=1),
        }[family]
        (kernels,) = build([graph([x], result)], check=True)
        tensor = torch.randn(3, 5)
        expected = {
            "elementwise": tensor.t().exp(),
            "rows": tensor.softmax(1),
            "product": (tensor @ tensor.t()).softmax(1),
        }[family]
        torch.testing.assert_close(kernels(tensor, check=True)[0], expected)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_inputs_may_have_the_names_of_sizes(dtype: DType) -> None:
    """Kernels of one launcher then have other names for a size than the launcher."""
    hints = {"m": 4096, "n": 4096, "k": 4096}
    plans = []
    for name in ("m", "n", "k", "m_2", "fabsf", "scales", "fusegen_tile_shared"):
        x, w = value("x", "m", "k", dtype=dtype), value("w", "n", "k", dtype=dtype)
        beside = value(name, "n", dtype=dtype)
        product = apply("matmul", x, apply("transpose", w, dim0=0, dim1=1))
        plans.append(planned(graph([x, w, beside], apply("add", product, beside)), hints))
        (step,) = plans[-1].steps
        assert isinstance(step, ProductPlan) and step.tensor_cores is not None
    compiles(plans)


def test_names_are_distinct_and_legal() -> None:
    names = Names()
    assert [names.fresh(n) for n in ("gemm.weight", "gemm.weight", "2x", "größe", "float")] == [
        "gemm_weight",
        "gemm_weight_2",
        "_2x",
        "gr_e",
        "float_2",
    ]
    assert all(name not in RESERVED for name in names.taken)


@pytest.mark.parametrize(
    ("text", "expected"), [("a b", "a_b"), ("", "value"), ("__x__", "x"), ("1", "_1")]
)
def test_identifiers(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_snake_case() -> None:
    assert snake_case("GemmGroupNorm") == "gemm_group_norm"
    assert snake_case("MLPBlock") == "mlp_block"


def test_every_word_of_attention_may_be_a_users_name() -> None:
    """Forward and backward, of their skeletons and of the headers that only they include."""
    kernels = ("kernels/attention.cu.j2", "kernels/back_to_back.cu.j2", "kernels/row_tiles.j2")
    headers = ["attention", "back_to_back", "row_fragments", "wgmma_attention", "mma_back_to_back"]
    headers += ["matrix_map", "stages"]
    texts = [resources.template(name) for name in kernels]
    texts += [resources.include_files()[f"fusegen/{name}.cuh"] for name in headers]
    words = words_in(texts)
    plans = []
    for start in range(0, len(words), 4 * WORDS_AT_ONCE):
        some = words[start : start + 4 * WORDS_AT_ONCE]
        q, k, v = (value(name, "b", "n", 16, dtype=DType.BFLOAT16) for name in some[:3])
        masks = [value(word, "n", "n", dtype=DType.BOOL) for word in some[3:]]
        scores = apply("matmul", q, apply("transpose", k, dim0=1, dim1=2))
        for word, mask in zip(some[3:], masks, strict=True):
            scores = replace(apply("where", mask, scores, -1.0), name=word)
        mixed = apply("matmul", apply("softmax", scores, dim=-1), v)
        found = differentiate(graph([q, k, v, *masks], mixed), stores_no_scores)
        assert found is not None
        plans += [
            plan_module(pipeline.run(g), DType.BFLOAT16) for g in (found.forward, found.backward)
        ]
    kinds = {type(step) for plan in plans for step in plan.steps}
    assert kinds == {AttentionPlan, BackToBackPlan, RowPlan}
    compiles(plans)
