"""What `fusegen tune` found, kept in the user's cache folder: for each card the quickest tiles.

The file is replaced as a whole, so that whoever reads it finds all of one version or of another.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fusegen import settings
from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.matrix_view import Major
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.preferences import BUCKETS, UNTUNED, Preferences, ProductShape, TunedTile
from fusegen.plan.tensor_cores import PARTS
from fusegen.runtime.cache import cache_errors, lock
from fusegen.runtime.gpu import current_card

FORMAT = 1
NAME = "tuned-tiles.json"
SIZES = ("columns", "depths", "most_rows", "tile_columns", "tile_parts")


def tuned_file() -> Path:
    """Where it is kept; the file need not exist."""
    return settings.cache_folder() / NAME


def tuned_here() -> Preferences:
    """What was tuned on the card that torch uses; torch is imported only where there is such a
    file, and a driver."""
    if not tuned_file().is_file():
        return UNTUNED
    card = current_card()
    return UNTUNED if card is None else Preferences(read_tuned().get(card, ()))


def read_tuned() -> dict[str, tuple[TunedTile, ...]]:
    """What was tuned on each card. A file that cannot be read, or that is not such a one, counts
    for nothing, and a warning says so."""
    path = tuned_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        return _ignored(path, error)
    try:
        return _parsed(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return _ignored(path, error)


def remember(card: str, tiles: Iterable[TunedTile]) -> None:
    """Add what was tuned on a card; it takes the place of what was known of the same products and
    numbers of rows. Raises CacheError where the cache folder cannot be used."""
    path = tuned_file()
    with cache_errors(), lock(path.stem):
        cards = read_tuned()
        known = {(tile.shape, tile.most_rows): tile for tile in (*cards.get(card, ()), *tiles)}
        cards[card] = tuple(known.values())
        content = {
            "format": FORMAT,
            "cards": {name: [_as_json(tile) for tile in of] for name, of in cards.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f"{NAME}.partial-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
            Path(partial).replace(path)
        finally:
            Path(partial).unlink(missing_ok=True)


def _as_json(tile: TunedTile) -> dict[str, Any]:
    shape = tile.shape
    return {
        "dtype": shape.dtype.value,
        "columns": shape.columns,
        "depths": shape.depths,
        "left": shape.left.name,
        "right": shape.right.name,
        "most_rows": tile.most_rows,
        "tile_columns": tile.kind.columns,
        "tile_parts": tile.kind.parts,
    }


def _parsed(content: Mapping[str, Any]) -> dict[str, tuple[TunedTile, ...]]:
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
    return {
        str(card): tuple(_tile(entry) for entry in entries)
        for card, entries in content["cards"].items()
    }


def _tile(entry: Mapping[str, Any]) -> TunedTile:
    sizes = [entry[name] for name in SIZES]
    if any(type(size) is not int for size in sizes):
        raise ValueError("a size in it is not a whole number")
    columns, depths, most_rows, tile_columns, parts = sizes
    if most_rows not in BUCKETS or parts not in {1, *PARTS.get(tile_columns, ())}:
        raise ValueError("it has numbers of rows or tiles that are none")
    shape = ProductShape(
        DType(entry["dtype"]), columns, depths, Major[entry["left"]], Major[entry["right"]]
    )
    return TunedTile(shape, most_rows, TileKind(tile_columns, parts))


def _ignored(path: Path, error: Exception) -> dict[str, tuple[TunedTile, ...]]:
    reason = f"there is no {error} in it" if isinstance(error, KeyError) else str(error)
    warnings.warn(
        f"{path} is ignored, as it is not what `fusegen tune` writes: {reason}; the next "
        "`fusegen tune` replaces it",
        stacklevel=3,
    )
    return {}
