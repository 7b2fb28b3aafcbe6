"""Values on the command line."""

from __future__ import annotations

import argparse

import pytest

from fusegen.cli.options import parse_constant, parse_seed, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n=8192", ("n", 8192)),
        ("n=-1", ("n", -1)),
        ("eps=1e-5", ("eps", 1e-5)),
        ("bias=True", ("bias", True)),
        ("bias=false", ("bias", False)),
        ("approximate=tanh", ("approximate", "tanh")),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_constants(text: str, expected: tuple[str, object]) -> None:
    name, value = parse_constant(text)
    assert (name, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize("text", ["", "n", "n=", "=4", "4=n", "a b=1"])
def test_malformed_constants(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="NAME=VALUE"):
        parse_constant(text)


def test_sizes() -> None:
    assert parse_size("batch=0") == ("batch", 0)
    assert parse_size("batch=1024") == ("batch", 1024)


@pytest.mark.parametrize("text", ["batch=-1", "batch=1.5", "batch=many", f"batch={2**63}"])
def test_malformed_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a size"):
        parse_size(text)


def test_seeds() -> None:
    assert parse_seed(str(2**64 - 1)) == 2**64 - 1
    for text in ("-1", "x", str(2**64)):
        with pytest.raises(argparse.ArgumentTypeError, match="not a seed"):
            parse_seed(text)
