"""What `fusegen tune` remembers: by card, whole or not at all."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fusegen import settings
from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.preferences import UNTUNED, Preferences, ProductShape, TunedTile
from fusegen.runtime import tuned_tiles
from fusegen.runtime.tuned_tiles import read_tuned, remember, tuned_file, tuned_here

SHAPE = ProductShape(DType.BFLOAT16, 4096, 8192, Major.DEPTH, Major.LINE)
TILE = TunedTile(SHAPE, 384, TileKind(128, 2))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.CACHE_DIR.name, str(tmp_path / "cache"))


def set_card(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setattr(tuned_tiles, "current_card", lambda: name)


def test_nothing_is_tuned_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    set_card(monkeypatch, "A card")
    assert read_tuned() == {} and tuned_here() == UNTUNED


def test_what_was_tuned_counts_on_that_card(monkeypatch: pytest.MonkeyPatch) -> None:
    remember("A card", [TILE])
    for name, expected in (("A card", Preferences((TILE,))), ("Another", UNTUNED), (None, UNTUNED)):
        set_card(monkeypatch, name)
        assert tuned_here() == expected


def test_later_findings_are_added_and_replace_earlier_ones() -> None:
    others = (replace(TILE, most_rows=512), replace(TILE, shape=replace(SHAPE, depths=1)))
    remember("A card", [TILE, *others])
    remember("Another", [TILE])
    remember("A card", [replace(TILE, kind=TileKind(64))])
    assert read_tuned() == {
        "A card": (replace(TILE, kind=TileKind(64)), *others),
        "Another": (TILE,),
    }
    assert [path.name for path in tuned_file().parent.glob(f"{tuned_file().name}*")] == [
        tuned_file().name
    ]


def written(**changes: object) -> str:
    """A right file's text but for some fields of its only tile."""
    remember("A card", [TILE])
    content = json.loads(tuned_file().read_text())
    content["cards"]["A card"][0].update(changes)
    return json.dumps(content)


BROKEN = {
    "no JSON": lambda: '{"format": 1, "cards"',
    "no object": lambda: "[]",
    "another program's": lambda: '{"name": "x"}',
    "another format": lambda: '{"format": 2, "cards": {}}',
    "no list of tiles": lambda: '{"format": 1, "cards": {"A card": 7}}',
    "no dtype": lambda: written(dtype="float7"),
    "no layout": lambda: written(left="UP"),
    "no bucket": lambda: written(most_rows=385),
    "no tile": lambda: written(tile_columns=100),
    "no parts": lambda: written(tile_parts=3),
    "no parts of such tiles": lambda: written(tile_columns=32),
    "a size of text": lambda: written(columns="4096"),
    "a size that is true": lambda: written(columns=True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_foreign_file_counts_for_nothing_until_it_is_replaced(name: str) -> None:
    text = BROKEN[name]()
    tuned_file().parent.mkdir(parents=True, exist_ok=True)
    tuned_file().write_text(text)
    with pytest.warns(UserWarning, match="is ignored, as it is not what `fusegen tune` writes: ."):
        assert read_tuned() == {}
    assert tuned_file().read_text() == text
    with pytest.warns(UserWarning):
        remember("A card", [TILE])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_tuned() == {"A card": (TILE,)}


def test_an_unreadable_file_counts_for_nothing() -> None:
    tuned_file().parent.mkdir(parents=True)
    tuned_file().write_bytes(b"\xff\xfe\x00")
    with pytest.warns(UserWarning, match="is ignored"):
        assert read_tuned() == {}
