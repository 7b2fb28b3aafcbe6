"""Products by `mma.sync`, the form for cards without warpgroup products, on whatever card there is:
the device's headers are told that this one has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusegen import resources
from fusegen.testing.families import FAMILIES, Family
from fusegen.testing.verification import verify

PLAIN = resources.include_files()
CHANGES = {
    "fusegen/launch.cuh": (
        "inline bool has_wgmma() { return compute_capability_major() == 9; }",
        "inline bool has_wgmma() { return false; }",
    ),
    "fusegen/mma_product.cuh": (
        "(__CUDA_ARCH__ >= 800 && __CUDA_ARCH__ / 100 != 9)",
        "(__CUDA_ARCH__ >= 800)",
    ),
}
PRODUCTS = [f for f in FAMILIES if "product" in f.name or "attention" in f.name]


def without_warpgroup_products() -> dict[str, str]:
    """The device headers, changed."""
    changed = dict(PLAIN)
    for name, (old, new) in CHANGES.items():
        assert changed[name].count(old) == 1, f"{name} has changed"
        changed[name] = changed[name].replace(old, new)
    return changed


def test_the_headers_can_be_changed() -> None:
    assert without_warpgroup_products() != PLAIN


@pytest.mark.gpu
@pytest.mark.parametrize("family", PRODUCTS, ids=lambda family: family.name)
def test_products(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "include_files", without_warpgroup_products)
    # Another name than the family's own model has: a model is loaded once in a process.
    subject = replace(family, name=f"{family.name} by mma").subject("cuda")
    result = verify(
        subject, examples=30, seconds=120, dtypes=("float16", "bfloat16"), sizes=family.sizes
    )
    assert result.failure is None, str(result.failure)
    assert result.is_right
