"""Names that would not survive as names of the generated Python module are refused."""

from __future__ import annotations

import pytest
import torch

from fusegen.frontend.python_names import MODULE_ATTRIBUTES
from tests.frontend.programs import errors, model

TAKEN = "every PyTorch module has an attribute of that name"
DECLARATIONS = ("Linear(n, n)", "Parameter([n])", "Buffer([n])", "ReLU()", "Inner()")
INNER = "model Inner():\n    input x: [b, 8]\n    return x * 2"


def test_the_attributes_are_those_of_pytorch() -> None:
    own = {name for name in dir(torch.nn.Module()) if not name.startswith("__")}
    assert own == MODULE_ATTRIBUTES


@pytest.mark.parametrize("declaration", DECLARATIONS)
@pytest.mark.parametrize("name", ["forward", "training", "T_destination", "to", "_parameters"])
def test_a_member_named_like_an_attribute(name: str, declaration: str) -> None:
    text = model(f"input x: [b, n]\n{name} = {declaration}\nreturn x, {name}", after=INNER)
    message = f"'{name}' cannot be the name of a layer, parameter or buffer: {TAKEN}"
    hint = f"choose another name, such as '{name}_'"
    assert errors(text, model="M") == [(3, 5, 5 + len(name), message, hint)]


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_a_member_named_like_a_keyword(declaration: str) -> None:
    text = model(f"input x: [b, n]\nclass = {declaration}\nreturn x, class", after=INNER)
    message = "'class' is a keyword of Python and cannot be a name here"
    ((line, start, end, shown, hint),) = errors(text, model="M")
    assert (line, start, end, hint) == (3, 5, 10, "choose another name, such as 'class_'")
    assert shown == f"{message}: it becomes an attribute of the module"


def test_a_member_of_a_model_used_as_a_layer() -> None:
    inner = "model Inner(n):\n    input x: [b, n]\n    half = Parameter([n])\n    return x * half"
    text = model("input x: [b, n]\ninner = Inner(n)\nreturn inner(x)", after=inner)
    ((line, start, end, shown, _),) = errors(text, model="M")
    assert (line, start, end) == (7, 5, 9)
    assert shown.endswith(f"{TAKEN} (in layer 'inner')")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("model M(lambda=8):\n    input x: [b, lambda]\n    return x", (1, 9), "keyword of Python"),
        ("model M(dtype=8):\n    input x: [b, dtype]\n    return x", (1, 9), "constructor has one"),
        ("model M():\n    input class: [b]\n    return class", (2, 11), "parameter of 'forward'"),
        ("model M():\n    input self: [b]\n    return self", (2, 11), "module's own in 'forward'"),
        ("model class():\n    input x: [b]\n    return x", (1, 7), "becomes a Python class"),
        ("model torch():\n    input x: [b]\n    return x", (1, 7), "Python module uses that name"),
        ("model M():\n    input x: [b]\n    __p = Buffer([1])\n    return x * __p", (3, 5), "two"),
    ],
)
def test_names_of_other_things(text: str, place: tuple[int, int], message: str) -> None:
    ((line, column, _, shown, hint),) = errors(text)
    assert (line, column) == place
    assert message in shown
    assert hint is not None


@pytest.mark.parametrize("name", ["forward", "class", "self", "torch", "dtype", "to", "_run"])
def test_names_of_values_sizes_and_functions_are_free(name: str) -> None:
    value = model(f"input x: [b, n]\n{name} = x + 1\nreturn {name} * 2")
    size = model(f"input x: [{name}, n]\nreturn x / {name}")
    function = model(f"input x: [b, n]\nreturn {name}(x)", after=f"fn {name}(t) = t + 1")
    assert [errors(text) for text in (value, size, function)] == [[], [], []]
