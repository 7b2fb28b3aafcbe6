"""Run as a program: builds the adder for the emulator and prints the module's path."""

from __future__ import annotations

from fusegen.runtime.builds import cached_build
from tests.runtime.adder import adder

if __name__ == "__main__":
    print(cached_build(adder()))
