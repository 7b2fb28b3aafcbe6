"""C names: distinct, legal, and as close to the user's own as can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# C++ keywords, and the names that the kernel skeletons use themselves.
KEYWORDS = """
alignas alignof and asm auto bool break case catch char class const constexpr continue default
delete do double else enum explicit export extern false float for friend goto if inline int long
mutable namespace new not operator or private protected public register return short signed sizeof
static struct switch template this throw true try typedef typename union unsigned using virtual
void volatile while xor main signal
"""
SKELETON = """
accumulators batch_index batches begin block blocks cache column column_tile column_tiles columns
count depth depths element end first first_column first_depth first_row grid group groups inside
index is_active lane lanes left_tile middle own_row pair packed part part_columns parts
product_column product_row right_tile row row_end row_in_block row_tiles rows shared step stream
stride thread thread_column thread_row threads tile tile_column tile_depth tile_end
tile_first_column tile_first_row tile_row tiles vector wide
"""
RESERVED = frozenset(KEYWORDS.split()) | frozenset(SKELETON.split())


@dataclass
class Names:
    """Hands out names for one scope; `taken` names are never given again, `reserved` ones never."""

    taken: set[str] = field(default_factory=set)
    reserved: frozenset[str] = RESERVED

    def fresh(self, wanted: str) -> str:
        """`wanted` made a C identifier, with a number where it is taken or reserved."""
        stem = identifier(wanted)
        name, number = stem, 2
        while name in self.taken or name in self.reserved:
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name


def identifier(text: str) -> str:
    """`text` with everything that a C identifier may not have replaced by underscores."""
    cleaned = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def snake_case(name: str) -> str:
    """`GemmGroupNorm` as `gemm_group_norm`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(spaced.lower())
