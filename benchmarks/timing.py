"""Timing on a GPU, as `fusegen bench` does it."""

from fusegen.runtime.timing import time_together

__all__ = ["time_together"]
