"""What `explain` says about plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusegen
from fusegen import compiler
from fusegen.cli.main import main
from fusegen.compiler.explanation import Explanation
from fusegen.frontend import Source

CHAINS = Path(__file__).parents[2] / "examples" / "kernelbench"


def explain(name: str, **sizes: int) -> Explanation:
    source = compiler.read_source(str(CHAINS / f"{name}.fuse"))
    return compiler.explain(source, arguments={}, sizes=sizes)


@pytest.mark.parametrize("name", ["l2_62", "l2_88", "l2_94"])
def test_group_norm_chains_are_one_kernel(name: str) -> None:
    explanation = explain(name, batch=1024)
    (kernel,) = explanation.kernels
    assert explanation.library_calls == ()
    # The input, the weight matrix and a few vectors in, the result out; on the way both operands
    # as two float16 parts each, of which three products are made.
    operands = (1024 + 8192) * 8192 * 4
    assert kernel.cost.writes == 1024 * 8192 * 4 + operands
    assert kernel.cost.reads == pytest.approx(2 * operands, rel=1e-3)
    assert kernel.cost.tensor_flops == 3 * 2 * 1024 * 8192 * 8192


def test_logsumexp_chain_never_stores_the_product() -> None:
    kernels = explain("l2_64", batch=1024).kernels
    assert [kernel.kind for kernel in kernels] == ["matrix product", "reduction"]
    parts = (1024 + 8192) * 8192 * 4
    assert sum(kernel.cost.writes for kernel in kernels) < parts + 1024 * 8192 * 4 / 16


def test_a_convolution_of_few_channels_is_computed_twice_and_never_stored() -> None:
    sizes = {"batch": 128, "height": 256, "width": 256}
    explanation = explain("l2_21", **sizes)
    assert explanation.library_calls == ()
    assert [k.kind for k in explanation.kernels] == ["convolution", "reduction", "convolution"]
    result = 128 * 32 * 254 * 254 * 4
    assert explanation.kernels[2].cost.writes == result
    assert sum(kernel.cost.writes for kernel in explanation.kernels[:2]) < result / 100
    assert "costs less than storing it" in explanation.kernels[2].why


def many_channels(**sizes: int) -> Explanation:
    source = compiler.read_source(str(CHAINS / "l2_21.fuse"))
    return compiler.explain(source, arguments={"in_channels": 64}, sizes=sizes)


def test_a_convolution_of_many_channels_is_left_to_the_library() -> None:
    (call,) = many_channels(batch=2, height=16, width=16).library_calls
    assert call.op == "conv2d"
    assert call.why


def test_a_plan_for_given_sizes_is_told_from_the_one_that_is_built() -> None:
    few, many = explain("l2_64", batch=8), explain("l2_64", batch=1024)
    assert not few.is_built and many.is_built
    assert "The kernels that are built differ" in few.as_text()
    assert "differ" not in many.as_text()


def test_boundaries_have_reasons() -> None:
    explanation = many_channels(batch=2, height=16, width=16)
    assert explanation.boundaries[0].first == "conv2d"
    assert "64 channels of 9 pixels" in explanation.boundaries[0].why
    for line in explanation.boundaries:
        assert line.why
        assert f"{line.first} | {line.second}: " in explanation.as_text()


STEPS = {"kernels", "library_calls", "peak_bytes", "peak_step"}


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", str(CHAINS / "l2_21.fuse"), "--json", "--size", "batch=4"]
    assert main([*arguments, "-D", "in_channels=64"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert set(content) == {"sizes", "is_built", "saved", "saved_bytes", "backward", *STEPS}
    assert content["sizes"] == {"batch": 4, "height": 128, "width": 128}
    assert set(content["backward"]) == STEPS
    calls = [call["op"] for call in content["backward"]["library_calls"]]
    assert calls == ["gradient_of_x = conv2d gradient", "gradient_of_conv.weight = conv2d gradient"]
    sizes = [value["bytes"] for value in content["saved"]]
    assert content["saved_bytes"] == sum(sizes) > 0
    for kernel in content["kernels"]:
        assert kernel["floor_us"] > 0
        assert kernel["ops"] and kernel["why"]
    assert [set(call) for call in content["library_calls"]] == [{"op", "why"}]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(CHAINS / "l2_88.fuse"), "--size", "batch=1024"]) == 0
    text = capsys.readouterr().out
    (kernel,) = explain("l2_88", batch=1024).kernels
    assert kernel.name in text
    assert "604 MB" in text and "matrix product" in text
    assert " ".join(kernel.why.split()) in " ".join(text.split())


def test_whose_floor_it_is_stands_there_without_symbolic_sizes_too() -> None:
    text = "model Fixed:\n    input x: [2, 8]\n    return tanh(x)\n"
    explanation = compiler.explain(Source("fixed.fuse", text), arguments={}, sizes={})
    assert explanation.as_text().startswith("The floor is an H100's.\n\n")


def test_what_is_saved_for_the_backward() -> None:
    """The normalised product and its scales: what the backward cannot compute again cheaply."""
    explanation = explain("l2_88", batch=1024)
    assert explanation.backward is not None
    assert sum(value.bytes for value in explanation.saved) == (1024 * 8192 + 1024 * 256) * 4
    kinds = [kernel.kind for kernel in explanation.backward.kernels]
    assert kinds.count("matrix product") == 2
    text = explanation.as_text()
    assert "In training, 34.6 MB are saved for the backward:" in text
    for kernel in explanation.backward.kernels:
        assert kernel.name in text


def test_the_peak_of_a_calls_memory() -> None:
    """In float32 the weight's gradient, with the parts of its operands, and what stands beside it:
    the gradients of the input and of the product. Those parts of the weight that the input's
    gradient took, as large as it, are gone by then."""
    explanation = explain("l2_88", batch=1024).backward
    assert explanation is not None
    rows, weight, small = 1024 * 8192 * 4, 8192 * 8192 * 4, 1 << 20
    assert explanation.peak_step == "gradient_of_gemm_weight"
    assert 0 < explanation.peak_bytes - (weight + 4 * rows) < small
    assert "allocates 403 MB at most, in gradient_of_gemm_weight." in explanation.as_text()


def test_the_peak_is_for_the_sizes_that_all_costs_are_for(tmp_path: Path) -> None:
    """Also where sums of the one symbolic size have names of their own in the plan."""
    text = "model M:\n    input x: [2, 8, h, 32]\n    c = Conv2d(8, 16, 3)\n    return relu(c(x))\n"
    file, out = tmp_path / "m.fuse", tmp_path / "out"
    file.write_text(text, encoding="utf-8")
    explanation = compiler.explain(compiler.read_source(str(file)), arguments={}, sizes={})
    assert explanation.sizes == (("h", 1024),) and explanation.backward is not None
    result, image, weight, bias = 2 * 16 * 1022 * 30, 2 * 8 * 1024 * 32, 16 * 8 * 3 * 3, 16
    peak = (result + image + weight + bias) * 4
    assert explanation.backward.peak_bytes == peak
    fusegen.compile(file, out, emit_only=True)
    plan = json.loads((out / "plan.json").read_text(encoding="utf-8"))
    assert plan["variants"]["m_backward_float32"]["peak_bytes"] == peak


def test_the_forward_in_training_where_it_is_another_one() -> None:
    text = "model Drops:\n    input x: [n, 8]\n    return dropout(tanh(x), 0.2)\n"
    explanation = compiler.explain(Source("drops.fuse", text), arguments={}, sizes={})
    assert explanation.training is not None and explanation.backward is not None
    assert [kernel.ops for kernel in explanation.kernels] == [("tanh",)]
    assert [kernel.ops for kernel in explanation.training.kernels] == [("tanh", "dropout")]
    assert "dropout" in explanation.backward.kernels[0].ops
    assert "The forward in training:" in explanation.as_text()
    assert set(explanation.as_json()["training"]) == STEPS
    assert "training" not in explain("l2_88", batch=1024).as_json()
