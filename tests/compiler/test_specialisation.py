"""What a model's files and operators are named after."""

from __future__ import annotations

import pytest

from fusegen.compiler.specialisation import Specialisation
from fusegen.errors import FusegenError
from fusegen.frontend import Source

SOURCE = "model {name}:\n    input x: [n]\n    return relu(x)\n"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("GemmNorm", "gemm_norm"),
        ("Random", "random_model"),
        ("Torch", "torch_model"),
        ("Class", "class_model"),
    ],
)
def test_no_file_hides_a_library(name: str, stem: str) -> None:
    source = Source("m.fuse", SOURCE.format(name=name))
    assert Specialisation.of(source, None, {}).stem == stem


def test_more_tensors_than_an_operator_takes_are_refused() -> None:
    lines = ["model Long:", "    input x: [n]", *(f"    w{i} = Parameter([1])" for i in range(64))]
    text = "\n".join([*lines, "    return x * (" + " + ".join(f"w{i}" for i in range(64)) + ")\n"])
    with pytest.raises(FusegenError, match="'Long' has 65 inputs, parameters and buffers, but"):
        Specialisation.of(Source("long.fuse", text), None, {})
