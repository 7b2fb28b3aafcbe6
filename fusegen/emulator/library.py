"""The emulator's runtime library, loaded into this process."""

from __future__ import annotations

import ctypes
from pathlib import Path

from fusegen.errors import FusegenError

# What the library answers about memory that was never exposed to the checker.
_NOT_EXPOSED = -2


class EmulatorRuntime:
    """The loaded runtime library: settings, the memory that kernels may use, and reports.

    Settings hold for the whole process and for every later launch, until set again.
    """

    def __init__(self, path: Path) -> None:
        # Kernel libraries find the runtime's functions among the process's global symbols.
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._declare("configure", None, ctypes.c_uint64, ctypes.c_int)
        self._declare("error_text", ctypes.c_char_p)
        self._declare("set_capability", None, ctypes.c_int)
        self._declare("take_launched", ctypes.c_char_p)
        self._declare("expose", None, pointer, size, ctypes.c_int)
        self._declare("forget", None, pointer, size)
        self._declare("forget_all", None)
        self._declare("first_unwritten", ctypes.c_int64, pointer, size)

    def _declare(self, name: str, result: object, *arguments: object) -> None:
        function = getattr(self._library, f"fusegen_emulator_{name}")
        function.restype = result
        function.argtypes = arguments

    def configure(self, seed: int = 0, check: bool = False) -> None:
        """Set the order of threads and blocks (0 is the plain order) and whether to check accesses.

        Checked launches need kernels built with `compile_flags(check=True)` and every tensor
        announced by `expose`.
        """
        self._library.fusegen_emulator_configure(seed, int(check))

    def expose(self, address: int, byte_count: int, initialised: bool) -> None:
        """Let kernels access `byte_count` bytes from `address` until `forget_all`.

        Unless `initialised`, reading a byte before a kernel has written it is a fault. Exposing
        memory again starts it afresh.
        """
        self._library.fusegen_emulator_expose(address, byte_count, int(initialised))

    def forget(self, address: int, byte_count: int) -> None:
        """Withdraw the `byte_count` bytes exposed from `address`."""
        self._library.fusegen_emulator_forget(address, byte_count)

    def forget_all(self) -> None:
        """Withdraw all exposed memory."""
        self._library.fusegen_emulator_forget_all()

    def first_unwritten(self, address: int, byte_count: int) -> int | None:
        """The offset of the first byte that no kernel has written since it was exposed, or None.

        Raises FusegenError if the bytes are not exposed or no checker was on when they were.
        """
        offset = int(self._library.fusegen_emulator_first_unwritten(address, byte_count))
        if offset == _NOT_EXPOSED:
            raise FusegenError(
                "the emulator does not watch this memory",
                hint="configure(check=True), then expose(...) it before the launch",
            )
        return None if offset < 0 else offset

    def set_capability(self, major: int) -> None:
        """Let launchers see a device of this compute capability, such as 8; it is 9 at first.

        Kernels run all the same: what is emulated does not depend on it.
        """
        self._library.fusegen_emulator_set_capability(major)

    def take_launched(self) -> list[str]:
        """The kernels launched since the last call, in order, with their template arguments."""
        text = bytes(self._library.fusegen_emulator_take_launched()).decode()
        return [name.strip("()") for name in text.splitlines()]

    def error_text(self) -> str:
        """The text of the last fault, which stays until the next one."""
        return bytes(self._library.fusegen_emulator_error_text()).decode()


def load_runtime(path: Path) -> EmulatorRuntime:
    """Load the runtime library at `path`; kernel libraries loaded later use it.

    Raises FusegenError if the file cannot be loaded.
    """
    try:
        return EmulatorRuntime(path)
    except OSError as error:
        raise FusegenError(
            f"cannot load the emulator's runtime library {path}: {error}",
            hint="delete the file so that it is built again",
        ) from error
