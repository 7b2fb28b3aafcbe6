"""Plans for a small device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.modules import planned_for_few_processors


@pytest.fixture(scope="package", autouse=True)
def few_processors() -> Iterator[None]:
    with planned_for_few_processors():
        yield
