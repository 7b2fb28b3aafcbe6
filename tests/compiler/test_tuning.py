"""Tuning, with times that are made up: what is timed, what is chosen, and who hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fusegen import compiler, settings
from fusegen.compiler.loading import blueprint
from fusegen.compiler.product_forms import TunedLaunch
from fusegen.compiler.specialisation import Specialisation
from fusegen.compiler.tuning import TunedModel, tune_model
from fusegen.errors import FusegenError
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import BUCKETS
from fusegen.runtime import comparison, measurement, tuned_tiles
from fusegen.runtime.generated_module import Blueprint
from fusegen.runtime.request import Target

SOURCE = Source(
    "two.fuse",
    """
model Two(width=512, out=96):
    input x: [batch, time, width]
    first = Linear(width, 1024)
    second = Linear(1024, out)
    return x |> first |> relu |> second
""",
)
FIRST, SECOND = "first_relu", "second"


def chosen() -> Specialisation:
    return Specialisation.of(SOURCE, None, {})


class MadeUp:
    """Times by a formula: the first product is quickest on 128 columns, the second on 64, and both
    on the widest from 1000 rows on."""

    def __init__(self) -> None:
        self.cases: list[dict[str, int]] = []
        self.candidates: list[TileKind] = []

    def __call__(
        self, candidates: Mapping[TileKind, Blueprint], graph: Graph, sizes: Mapping[str, int]
    ) -> dict[TileKind, dict[str, float]]:
        assert len({b.key for b in candidates.values()}) == len(candidates)
        self.candidates = [*candidates]
        self.cases.append({name: sizes[name] for name in ("batch", "time")})
        best = {FIRST: 128, SECOND: 64}
        if sizes["batch"] * sizes["time"] >= 1000:
            best = dict.fromkeys(best, 256)
        return {
            kind: {
                name: 9.0 + abs(kind.columns - best[name]) / 100 + kind.parts
                for name in (FIRST, SECOND)
            }
            for kind in candidates
        }


def tune(made_up: MadeUp, dtype: DType = DType.BFLOAT16, **sizes: int) -> TunedModel:
    return tune_model(
        chosen(), "A card", made_up, sizes=sizes, dtype=dtype, precision=Precision.HIGHEST
    )


def test_each_product_on_its_tiles_for_each_number_of_rows() -> None:
    made_up = MadeUp()
    found = tune(made_up, time=16)
    wide = [TileKind(256), TileKind(192), TileKind(128)]
    narrow = [TileKind(64), TileKind(64, 2), TileKind(32)]
    assert made_up.candidates == [*wide[:2], wide[2], TileKind(128, 2), *narrow]
    assert made_up.cases == [{"batch": most // 16, "time": 16} for most in BUCKETS]
    assert {
        (p.kernel, p.rows, p.choice.most_rows, p.choice.kind.columns) for p in found.products
    } == {
        (name, most, most, columns if most < 1000 else 256 if name == FIRST else 128)
        for name, columns in ((FIRST, 128), (SECOND, 64))
        for most in BUCKETS
    }
    # 96 columns need no tiles wider than 128.
    first, second = (next(p for p in found.products if p.kernel == n) for n in (FIRST, SECOND))
    assert [kind for kind, _ in first.times] == [*wide, TileKind(64), TileKind(32)]
    assert [kind for kind, _ in second.times] == [wide[2], TileKind(128, 2), *narrow]


def test_a_given_size_alone() -> None:
    made_up = MadeUp()
    found = tune(made_up, batch=3, time=100)
    assert made_up.cases == [{"batch": 3, "time": 100}]
    assert [(p.rows, p.choice.most_rows) for p in found.products] == [(300, 384)] * 2


def test_more_rows_than_any_bucket_has_are_refused() -> None:
    with pytest.raises(FusegenError, match="ran on tiles to choose among") as error:
        tune(MadeUp(), batch=100, time=100)
    assert "4096 rows at most" in str(error.value.hint)


def test_products_that_ran_otherwise_are_refused() -> None:
    """On a card without warpgroup products, say."""
    with pytest.raises(FusegenError, match="no product of model 'Two' ran on tiles"):
        tune_model(
            chosen(),
            "A card",
            lambda *_: {},
            sizes={"time": 16},
            dtype=DType.BFLOAT16,
            precision=Precision.HIGHEST,
        )


def test_a_model_without_a_choice_is_refused() -> None:
    with pytest.raises(FusegenError, match=r"no product of model 'Two' has tiles to choose") as e:
        tune(MadeUp(), DType.FLOAT32)
    assert "--dtype bfloat16" in str(e.value.hint)


def test_sizes_that_the_model_does_not_have() -> None:
    with pytest.raises(FusegenError, match="no symbolic size 'rows'"):
        tune(MadeUp(), rows=3)


def test_report() -> None:
    found = tune(MadeUp(), batch=3, time=100)
    assert found.as_text().splitlines() == [
        "A card; microseconds on tiles of so many columns (by parts of K):",
        "  first_relu, 300 rows: 256: 11.3, 192: 10.6, 128: 10.0, 64: 10.6, 32: 11.0; "
        "128 for up to 384 rows",
        "  second, 300 rows: 128: 10.6, 128 by 2: 11.6, 64: 10.0, 64 by 2: 11.0, 32: 10.3; "
        "64 for up to 384 rows",
    ]
    entry = found.as_json()["products"][1]
    assert entry["tiles"][1] == {"columns": 128, "parts": 2, "time_us": pytest.approx(11.64)}
    choice = (entry["most_rows"], entry["tile_columns"], entry["tile_parts"])
    assert (entry["kernel"], *choice) == (SECOND, 384, 64, 1)


def test_what_was_tuned_is_explained_and_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.CACHE_DIR.name, str(tmp_path))
    monkeypatch.setattr(tuned_tiles, "current_card", lambda: "A card")
    name = "two_bfloat16"

    def explained() -> list[bool]:
        found = compiler.explain(SOURCE, arguments={}, sizes={}, dtype="bfloat16")
        assert found.is_built
        return [any("tuned on this card" in form for form in k.forms) for k in found.kernels]

    def text(target: Target) -> str:
        return blueprint(chosen(), target).request(name).sources[f"{name}.cu"]

    before, emulated = text(Target.CUDA), text(Target.EMULATE)
    assert explained() == [False, False] and "tuned" not in before
    tuned_tiles.remember("A card", [p.choice for p in tune(MadeUp(), time=16).products])
    assert explained() == [True, True]
    # The forms are numbered from the widest on: 256, 128 and so on.
    assert "{1, 896, 1}," in text(Target.CUDA)
    assert text(Target.EMULATE) == emulated
    monkeypatch.setattr(tuned_tiles, "current_card", lambda: "Another card")
    assert text(Target.CUDA) == before


def test_what_was_tuned_is_measured_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `bench`, as it is what a module runs; the sizes decide whether a tuned tile does."""
    monkeypatch.setenv(settings.CACHE_DIR.name, str(tmp_path))
    monkeypatch.setattr(tuned_tiles, "current_card", lambda: "A card")
    monkeypatch.setattr(measurement, "require_gpu", lambda: None)
    measured: list[str] = []
    compared = comparison.Comparison("on the GPU", "bfloat16", ())

    def measure(what: Blueprint, graph: Graph, costs: Any, **_: object) -> object:
        measured.append(what.request("two_bfloat16").sources["two_bfloat16.cu"])
        assert None not in costs.values()
        times = tuple(measurement.KernelTime(name, 1.0, 2, 3, 0.5) for name in costs)
        return measurement.Measurement("A card", "bfloat16", 3e12, times, 0.0, {"fusegen": 2.0}, {})

    monkeypatch.setattr(measurement, "measure", measure)
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: compared)

    def bench(**sizes: int) -> Any:
        return compiler.bench(SOURCE, arguments={}, sizes=sizes, dtype="bfloat16")

    assert bench(batch=3, time=100).tuned == () and "tuned" not in measured[0]
    assert "tuned" not in bench(batch=3, time=100).as_text()
    choices = [p.choice for p in tune(MadeUp(), batch=3, time=100).products]
    tuned_tiles.remember("A card", choices)
    found = bench(batch=3, time=100)
    assert found.tuned == (
        TunedLaunch(FIRST, 300, TileKind(128)),
        TunedLaunch(SECOND, 300, TileKind(64)),
    )
    assert (
        measured[-1]
        == blueprint(chosen(), Target.CUDA).request("two_bfloat16").sources["two_bfloat16.cu"]
    )
    assert "constexpr TunedRows tuned_rows[]" in measured[-1]
    lines = found.as_text().splitlines()
    assert "second: 300 rows on tiles of 64 columns, as tuned on this card" in lines
    assert found.as_json()["tuned"][0] == {
        "kernel": FIRST,
        "rows": 300,
        "tile_columns": 128,
        "tile_parts": 1,
    }
    assert bench(batch=1, time=100).tuned == ()
