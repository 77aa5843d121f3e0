"""What this process has allocated, as its C library counts it: resident memory says little of a heap that is kept.

Source: The GNU C Library, "Statistics for Memory Allocation with malloc" and malloc_trim(3).
"""

import ctypes

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


_LIBRARY = ctypes.CDLL(None)
_IS_COUNTED = hasattr(_LIBRARY, "mallinfo2")  # from glibc 2.33 on
if _IS_COUNTED:
    _LIBRARY.mallinfo2.restype = _Statistics


def allocated_bytes() -> int:
    """All that is allocated and not freed, in pages of its own too; 0 where the C library does not say."""
    if not _IS_COUNTED:
        return 0
    found = _LIBRARY.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def give_back() -> None:
    """Return what was freed to the machine, where the C library keeps it."""
    if hasattr(_LIBRARY, "malloc_trim"):
        _LIBRARY.malloc_trim(0)
