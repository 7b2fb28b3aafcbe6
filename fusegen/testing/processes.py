"""Many processes for one search, each with seeds of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")


def each(
    function: Callable[[Task], Result], tasks: Sequence[Task], processes: int
) -> Iterator[Result]:
    """`function` of every task as results come; in this process if there is to be only one."""
    if processes == 1:
        yield from map(function, tasks)
        return
    # Not forked: PyTorch's and the emulator's threads do not survive that.
    with multiprocessing.get_context("spawn").Pool(processes, _in_one_thread) as pool:
        yield from pool.imap_unordered(function, tasks)


def _in_one_thread() -> None:
    """PyTorch would take a thread for each core in every process."""
    torch.set_num_threads(1)
