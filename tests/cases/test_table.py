"""Every fault that concerns what kernels compute has a test with its number in its name; those that
concern PyTorch and the build have theirs where the mechanism is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FAULTS = {
    "N02": "softmax of infinities",
    "N03": "online softmax and idle threads",
    "N04": "logsumexp of minus infinities",
    "N05": "logsumexp without the shift",
    "N06": "NaN through activations",
    "N07": "NaN through extremes",
    "N08": "softplus and mish in half",
    "N09": "softplus's threshold",
    "N10": "the slope of softplus in the tail",
    "N11": "mish's overflow",
    "N12": "the exact GELU",
    "N13": "the slope of the exact GELU in the left tail",
    "N16": "slopes at kinks",
    "N17": "subnormals of bfloat16",
    "N18": "x * 0 and x - x",
    "N19": "numbers beside float64",
    "N20": "sums in half",
    "N21": "extremes compared without their rounding",
    "N22": "variance around a large mean",
    "N23": "sets of one element or one value",
    "N25": "padded rows",
    "N26": "masked lanes",
    "N27": "group norm's gradients for any rank",
    "N28": "partial gradients of all rows",
    "N29": "reciprocal of a norm",
    "N30": "running variance",
    "N31": "average pool in ceil mode",
    "N33": "max pool's padding and NaN",
    "N34": "output padding",
    "N36": "a bias gradient of several leading dims",
    "L38": "a gradient with stride 0",
    "L40": "channels_last",
    "L42": "an empty batch",
    "L43": "offsets beyond 32 bits",
    "L45": "two reductions and one buffer",
    "L46": "dropped lanes",
    "B59": "zeros within the tolerance",
}
"""The faults' numbers in the list they are kept in, and what went wrong."""

ELSEWHERE = {
    "P47": ("gpu/test_modules.py", "test_tensors_on_the_last_device_while_the_first_is_current"),
    "P48": ("gpu/test_modules.py", "test_side_stream_behind_a_slow_kernel"),
    "P50": ("runtime/test_generated_module.py", "test_mixed_dtypes_are_refused"),
    "P51": ("runtime/test_generated_module.py", "test_result_and_opcheck"),
    "P52": ("runtime/test_generated_module.py", "test_results_never_alias_inputs"),
    "P53": ("runtime/test_autograd.py", "test_frozen_parameters"),
    "P54": ("runtime/test_autograd.py", "test_double_backward_is_refused_or_right"),
    "B56": ("runtime/test_cache.py", "test_eight_processes_build_once"),
    "B57": ("runtime/test_fingerprint.py", "test_request_changes_key_and_namespace"),
    "B58": ("runtime/test_generated_module.py", "test_two_versions_in_one_process"),
    "B60": ("runtime/test_builder.py", "test_spaces_in_every_path"),
}
"""The file and the first test of each of the others."""


def test_every_fault_has_a_test() -> None:
    found: set[str] = set()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        names = re.findall(r"^def test_([a-z]\d\d)_", path.read_text(encoding="utf-8"), re.M)
        found |= {name.upper() for name in names}
    assert found == set(FAULTS)


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_others_have_theirs(number: str) -> None:
    file, name = ELSEWHERE[number]
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    assert f"def {name}(" in text
