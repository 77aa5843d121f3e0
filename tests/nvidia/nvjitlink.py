"""nvJitLink, with which programs link PTX as the driver does, without a GPU.

Source: nvJitLink.h of CUDA 12.8 and 13.5.
"""

import ctypes
from pathlib import Path

_PTX = 2  # of nvJitLinkInputType


class LinkError(Exception):
    """What nvJitLink says of PTX that it refuses."""


class Linker:
    """One version of the library.

    Args:
        folder: where the package lies.
    """

    def __init__(self, folder: Path):
        (library,) = folder.glob("nvidia/*/lib/libnvJitLink.so.*")
        self._library = ctypes.CDLL(str(library))

    @property
    def version(self) -> str:
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        assert self._library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
        return f"{major.value}.{minor.value}"

    def link(self, ptx: str, architecture: str) -> bytes:
        """The machine code of PTX for ``sm_90a``.

        Raises:
            NotLinked: with nvJitLink's own words.
        """
        handle, options = ctypes.c_void_p(), (ctypes.c_char_p * 1)(f"-arch={architecture}".encode())
        if self._library.nvJitLinkCreate(ctypes.byref(handle), 1, options):
            raise LinkError(f"no linker for {architecture}")
        try:
            text = ptx.encode() + b"\0"
            if self._library.nvJitLinkAddData(handle, _PTX, text, ctypes.c_size_t(len(text)), b"kernel"):
                raise LinkError(self._text(handle, "ErrorLog").decode())
            if self._library.nvJitLinkComplete(handle):
                raise LinkError(self._text(handle, "ErrorLog").decode())
            return self._text(handle, "LinkedCubin")
        finally:
            self._library.nvJitLinkDestroy(ctypes.byref(handle))

    def _text(self, handle: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        assert getattr(self._library, f"nvJitLinkGet{what}Size")(handle, ctypes.byref(size)) == 0
        buffer = ctypes.create_string_buffer(size.value)
        assert getattr(self._library, f"nvJitLinkGet{what}")(handle, buffer) == 0
        return buffer.raw
