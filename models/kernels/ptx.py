"""Text of PTX made fit for whoever passes only the arguments that a kernel declares.

Triton ends the parameters of every entry with two pointers of its own, ``global_scratch`` and ``profile_scratch``.
TensorRT passes a plugin's tensors and numbers and nothing else, so that a kernel which needs no scratch must not ask.

Source: PTX ISA 9, sections 5.2 (``.version``), 5.4 (``.entry``) and 9.7.9 (``cp.async``).
"""

from __future__ import annotations

import re

from attendant.errors import ExportError

_ENTRY = re.compile(r"(\.visible\s+\.entry\s+\w+\s*\()([^)]*)(\))")
_ASYNC_COPY = re.compile(r"\bcp\.async\.(?:ca|cg|bulk\.tensor\.\dd\.shared|bulk\.shared)")
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


def parameters(ptx: str) -> list[str]:
    """The declarations of the entry's parameters, in order.

    Raises:
        ExportError: there is no entry, or more than one.
    """
    return [declared.strip() for declared in _entry(ptx).group(2).split(",") if declared.strip()]


def without_last_parameters(ptx: str, count: int) -> str:
    """Take the last parameters from the entry.

    Raises:
        ExportError: the kernel reads one of them.
    """
    entry, declared = _entry(ptx), parameters(ptx)
    kept, dropped = declared[: len(declared) - count], declared[len(declared) - count :]
    text = ptx[: entry.start(2)] + "\n\t" + ",\n\t".join(kept) + "\n" + ptx[entry.end(2) :]
    for name in (declaration.split()[-1] for declaration in dropped):
        if re.search(rf"\b{re.escape(name)}\b", text):
            raise ExportError("a kernel that leaves Triton's scratch alone", f"it reads {name}", _REMEDY)
    return text


def version(ptx: str) -> int:
    """Ten times the major version of PTX plus the minor one.

    Raises:
        ExportError: the text states none.
    """
    found = _VERSION.search(ptx)
    if found is None:
        raise ExportError("a line .version of PTX", repr(ptx[:80]), "compile for a target of NVIDIA's")
    return 10 * int(found.group(1)) + int(found.group(2))


def count_async_copies(ptx: str) -> int:
    """How many instructions copy into shared memory without waiting: ``cp.async``, and TMA's ``cp.async.bulk``."""
    return len(_ASYNC_COPY.findall(ptx))


def count_instructions(ptx: str, name: str) -> int:
    """How many instructions begin with a name: ``wgmma.mma_async``, ``cp.async.bulk.tensor.3d.shared``."""
    return len(re.findall(rf"(?<![\w.]){re.escape(name)}\b", ptx))


_REMEDY = "compile it without what needs scratch: descriptors made on the device, or profiling"


def _entry(ptx: str) -> re.Match[str]:
    found = list(_ENTRY.finditer(ptx))
    if len(found) != 1:
        raise ExportError("one .visible .entry in the PTX", f"{len(found)}", "compile one kernel at a time")
    return found[0]
