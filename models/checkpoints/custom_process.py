"""The process of a custom model's file: run by path, never imported, and nothing of ours is on its path.

It runs the file's ``model()``, then the module eagerly on what its contract says, so that a mistake is told in seconds,
and only then traces it. What crosses to Attendant is ``model.pt2`` with the contract in it, or one error.
"""

import ctypes
import json
import os
import re
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GROUND = "attendant"
OURS = (GROUND, "models", "export", "serving", "clients", "commands", "benchmarks", "tests")
REMEDY = "see docs/tutorials/your-own-model.md"
PR_SET_PDEATHSIG = 1
MOST_CHARACTERS = 600
ROUNDED_SHARE = 0.01
"""Of the integers of a row, that may be others beside another row: of numbers halfway between two."""
_SIZE = re.compile(r"L\[\S+\.size\(\)\[\d+\]")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class OwnFirst(MetaPathFinder):
    """Of the names that are packages of ours, finds the ground alone; all others are the user's."""

    def __init__(self, project: list[str]) -> None:
        self._project = project

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in OURS:
            return None
        if fullname == GROUND:
            return PathFinder.find_spec(fullname, [str(ROOT)])
        elsewhere = [place for place in sys.path if not _holds_ours(place)]
        # Also a folder without an __init__.py, before any package that is installed.
        spec = PathFinder.find_spec(fullname, self._project) or PathFinder.find_spec(fullname, elsewhere)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return spec


class Uncached(SourceFileLoader):
    """Compiles a file as it stands: bytecode that Python kept is taken for a file's of the same size and second."""

    def get_code(self, fullname: str) -> CodeType:
        """The file's code, compiled now."""
        return self.source_to_code(self.get_data(self.path), self.path)


def trace(path: Path, out: Path) -> None:
    """Write ``model.pt2`` for a file that has a ``model()``.

    Raises:
        ArtefactError: the file cannot be run, or has no such function, or forward() fails on the contract's shapes.
        ConfigError: the contract is not whole, or not what forward() does.
    """
    from attendant.custom_model import CustomModel
    from attendant.errors import ArtefactError, ConfigError

    file = _run(path, lambda: _load(path), f"a Python file that runs at {path}")
    if not callable(function := getattr(file, "model", None)):
        defined = sorted(name for name, value in vars(file).items() if callable(value) and not name.startswith("_"))
        raise ArtefactError(f"a function model() in {path}", f"{defined}", REMEDY)
    custom = _run(path, function, f"model() in {path} to return")
    if not isinstance(custom, CustomModel):
        raise ArtefactError(f"a CustomModel from model() in {path}", type(custom).__name__, REMEDY)
    import torch

    if not isinstance(custom.module, torch.nn.Module):
        raise ConfigError("module of a CustomModel, an nn.Module", f"{custom.module!r:.100}", REMEDY)
    torch.backends.mha.set_fastpath_enabled(False)  # which no exporter knows
    module = custom.module.eval().requires_grad_(False)
    with torch.no_grad():
        samples = _run_eagerly(path, module, custom)
        example = _example_with_answer(path, module, custom)
        record = {"name": custom.name, "contract": asdict(custom.contract), "details": custom.details}
        text = _run(path, lambda: json.dumps({**record, "example": example}), "details and an example of JSON values")
        _export(path, module, custom, samples, out, text)


def _load(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path, loader=Uncached(path.stem, str(path)))
    assert spec is not None and spec.loader is not None
    file = module_from_spec(spec)
    sys.modules.setdefault(path.stem, file)  # as dataclasses and pickle look it up
    spec.loader.exec_module(file)
    return file


def _run(path: Path, call: Callable[[], Any], expected: str) -> Any:
    from attendant.errors import ArtefactError, AttendantError

    try:
        return call()
    except AttendantError:
        raise
    except BaseException as error:  # also what ends a process
        raise ArtefactError(
            expected, f"{type(error).__name__}: {_cause(error)}{_place(error, path)}", REMEDY
        ) from error


def _run_eagerly(path: Path, module: Any, custom: Any) -> tuple[Any, ...]:
    """Run the module on the sizes that it is traced with, and on the smallest; the inputs of the first."""
    contract = custom.contract
    usual = {axis: max(contract.smallest.get(axis, 1), min(size, 5 + n)) for n, (axis, size) in _numbered(contract)}
    smallest = {axis: contract.smallest.get(axis, 1) for axis in contract.largest}
    samples = _inputs(contract, {"batch": 2, **usual})
    outputs = forward(path, module, custom, samples)
    _require_outputs(custom, samples, outputs, {"batch": 2, **usual})
    _require_finite(custom, outputs)
    shortest = _inputs(contract, {"batch": 1, **smallest})
    _require_outputs(custom, shortest, forward(path, module, custom, shortest), {"batch": 1, **smallest})
    for row in range(2):
        alone = forward(path, module, custom, tuple(tensor[row : row + 1] for tensor in samples))
        _require_same_row(custom, alone, [output[row : row + 1] for output in outputs])
    return samples


def _require_finite(custom: Any, outputs: list[Any]) -> None:
    from attendant.errors import ConfigError

    for spec, output in zip(custom.contract.outputs, outputs, strict=True):
        if not output.isfinite().all():
            drawn = f"within {custom.contract.within}" if custom.contract.within else "from N(0, 1)"
            remedy = "state between what its floats lie, as within={'x': (0.0, 1.0)} in the contract, or clamp them"
            raise ConfigError(f"finite numbers in {spec.name} from forward() of inputs {drawn}", "others", remedy)


def _require_same_row(custom: Any, alone: list[Any], joined: list[Any]) -> None:
    import torch

    from attendant.errors import ConfigError

    for spec, one, other in zip(custom.contract.outputs, alone, joined, strict=True):
        rounding = torch.finfo(one.dtype).eps ** 0.5 if one.is_floating_point() else 0.0
        scale = max(1.0, float(other.double().abs().nan_to_num().max())) if other.numel() else 1.0
        differs = ~torch.isclose(one.double(), other.double(), rtol=0, atol=rounding * scale, equal_nan=True)
        # Numbers that a module rounds to integers may fall to either side; the parity check asks again, in float64.
        if differs.sum() > (0 if one.is_floating_point() else ROUNDED_SHARE * one.numel()):
            expected = f"{spec.name} of a row from forward() to be the same alone and beside another"
            remedy = (
                "let no row depend on others or on chance: the server joins requests (is batch_first=True missing?)"
            )
            raise ConfigError(expected, f"{one[differs][:3].tolist()} and {other[differs][:3].tolist()}", remedy)


def _numbered(contract: Any) -> list[tuple[int, tuple[str, int]]]:
    return list(enumerate(sorted(contract.largest.items())))


def _inputs(contract: Any, sizes: dict[str, int]) -> tuple[Any, ...]:
    import torch

    def tensor(spec: Any) -> Any:
        shape = spec.shape(sizes)
        if "float" in spec.dtype:
            least, most = contract.within.get(spec.name, (0.0, 0.0))
            drawn = torch.empty(shape).uniform_(least, most) if least < most else torch.randn(shape)
            return drawn.to(getattr(torch, spec.dtype))
        if spec.dtype == "bool":
            return torch.ones(shape, dtype=torch.bool)
        rows = torch.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)) % contract.below[spec.name]
        return rows.expand(shape).to(getattr(torch, spec.dtype))

    torch.manual_seed(0)
    return tuple(tensor(spec) for spec in contract.inputs)


def forward(path: Path, module: Any, custom: Any, tensors: tuple[Any, ...]) -> list[Any]:
    """The module's outputs in the order of its contract.

    Raises:
        ArtefactError: it fails, or returns something else; the message has the user's own line.
    """
    import torch

    from attendant.errors import ArtefactError

    shapes = _shapes(custom.contract.inputs, tensors)
    try:
        outputs = module(*tensors)
    except Exception as error:
        found = f"{_cause(error)}{_place(error, path)}"
        remedy = "correct forward(), or the contract's axes"
        raise ArtefactError(
            f"forward() to take {shapes}", found, remedy, message=f"forward() failed on {shapes}: {found}; {remedy}"
        ) from error
    names = [spec.name for spec in custom.contract.outputs]
    if isinstance(outputs, dict) and outputs.keys() == set(names):
        outputs = [outputs[name] for name in names]
    listed = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    if not isinstance(listed, list | tuple) or not all(isinstance(one, torch.Tensor) for one in listed):
        found = str(sorted(listed)) if isinstance(listed, dict) else type(listed).__name__
        raise ArtefactError(f"tensors {names} from forward()", found, "return them in a tuple, or in a dict")
    if len(listed) != len(names):
        raise ArtefactError(f"{len(names)} outputs of forward(), {names}", str(len(listed)), "correct the contract")
    return list(listed)


def _require_outputs(custom: Any, tensors: tuple[Any, ...], outputs: list[Any], sizes: dict[str, int]) -> None:
    from attendant.errors import ConfigError

    for spec, output in zip(custom.contract.outputs, outputs, strict=True):
        wanted = [sizes.get(axis, axis) for axis in spec.axes]
        found = list(output.shape)
        same = len(wanted) == len(found) and all(
            isinstance(want, str) or want == have for want, have in zip(wanted, found, strict=True)
        )
        dtype = str(output.dtype).removeprefix("torch.")
        if not same or dtype != spec.dtype:
            raise ConfigError(
                f"{spec.name} {spec.dtype} {_listed(wanted)} from forward() on"
                f" {_shapes(custom.contract.inputs, tensors)}",
                f"{dtype} {_listed(found)}",
                "correct the contract, or forward()",
            )


def _example_with_answer(path: Path, module: Any, custom: Any) -> dict[str, Any]:
    import torch

    from attendant.errors import ConfigError

    inputs, specs = custom.example.get("inputs"), custom.contract.inputs
    if inputs is None or "answer" in custom.example:
        return dict(custom.example)
    if not isinstance(inputs, dict) or inputs.keys() != {spec.name for spec in specs}:
        found = str(list(inputs)) if isinstance(inputs, dict) else type(inputs).__name__
        raise ConfigError(f"an example for the inputs {[spec.name for spec in specs]}", found, REMEDY)
    rows = _run(
        path,
        lambda: tuple(torch.as_tensor(inputs[spec.name], dtype=getattr(torch, spec.dtype))[None] for spec in specs),
        "an example of nested lists of numbers, one row each",
    )
    for spec, row in zip(specs, rows, strict=True):
        if row.ndim != len(spec.axes):
            wanted = f"one row of {spec.name!r} in the example, {_listed(spec.axes[1:])}"
            raise ConfigError(wanted, _listed(row.shape[1:]), REMEDY)
    outputs = forward(path, module, custom, rows)
    names = [spec.name for spec in custom.contract.outputs]
    return {
        "inputs": {spec.name: row[0].tolist() for spec, row in zip(specs, rows, strict=True)},
        "answer": {name: output[0].tolist() for name, output in zip(names, outputs, strict=True)},
    }


def _export(path: Path, module: Any, custom: Any, samples: tuple[Any, ...], out: Path, record: str) -> None:
    import logging
    import warnings

    import torch
    import torch.export

    from attendant.errors import ExportError

    contract = custom.contract
    symbols = {
        axis: torch.export.Dim(axis, min=contract.smallest.get(axis), max=size)
        for axis, size in contract.largest.items()
    } | {"batch": torch.export.Dim("batch")}
    shapes = [
        {index: symbols[axis] for index, axis in enumerate(spec.axes) if isinstance(axis, str)}
        for spec in contract.inputs
    ]
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        kinds = [parameter.kind for parameter in signature(module.forward).parameters.values()]
        named = kinds.index(Parameter.VAR_POSITIONAL) if Parameter.VAR_POSITIONAL in kinds else None
        program = torch.export.export(
            module,
            samples,
            dynamic_shapes=tuple(shapes) if named is None else (*shapes[:named], tuple(shapes[named:])),
            strict=False,
        )
    except Exception as error:
        found = f"{_violations(str(error)) or _cause(error)}{_place(error, path)}"
        raise ExportError("torch.export to trace forward()", found, REMEDY) from error
    torch.export.save(program, out / "model.pt2", extra_files={"attendant.json": record})


def _violations(text: str) -> str:
    """What torch.export says of axes that cannot vary as the contract wants, without the rest of it."""
    frozen = sorted(set(re.findall(r"You marked (\w+) as dynamic but your code specialized", text)))
    if frozen:
        return f"the exporter froze {frozen}: a Python number is made of their size"
    guards = re.findall(r"in the specified range (.+?) satisfy the generated guard (.+?)\.?$", text, re.MULTILINE)
    return "; ".join(f"not every size in {sizes} keeps {re.sub(_SIZE, 'it', guard)}" for sizes, guard in guards)


def _shapes(specs: Sequence[Any], tensors: Sequence[Any]) -> str:
    return ", ".join(f"{spec.name} {_listed(tensor.shape)}" for spec, tensor in zip(specs, tensors, strict=True))


def _listed(sizes: Sequence[Any]) -> str:
    return f"[{','.join(map(str, sizes))}]"


def _cause(error: BaseException) -> str:
    try:
        text = " ".join(_ANSI.sub("", str(error)).split())
    except Exception:
        return "its text cannot be made"
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …"


def _place(error: BaseException, path: Path) -> str:
    """The last line of the user's own that the error came through."""
    places = [Path(entry).resolve() for entry in _project(path)]
    if isinstance(error, SyntaxError) and error.filename:
        return f" (at {_relative(Path(error.filename), places)}:{error.lineno})" if "line" not in str(error) else ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        ours = "site-packages" in file.parts or file == Path(__file__).resolve()
        if not ours and any(file.is_relative_to(place) for place in places):
            return f" (at {_relative(file, places)}:{frame.lineno}: {frame.line})"
    return ""


def _relative(file: Path, places: Sequence[Path]) -> str:
    return next((str(file.relative_to(place)) for place in places if file.is_relative_to(place)), str(file))


def _project(path: Path) -> list[str]:
    """What stands first on the path: the file's folder, as when Python runs it, and the working directory."""
    folders = dict.fromkeys((str(path.resolve().parent), str(Path.cwd())))
    return [folder for folder in folders if not _holds_ours(folder)]


def _holds_ours(place: str) -> bool:
    return (Path(place) / GROUND / "signature.py").is_file()


def main(path: Path, out: Path) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of a Ctrl-C, and ends this process
    libraries = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    kept = [place for place in sys.path if not _holds_ours(place) or Path(place).resolve() in libraries]
    sys.path[:] = [*(project := _project(path)), *kept]
    sys.meta_path.insert(0, OwnFirst(project))
    from attendant.errors import AttendantError

    try:
        _run(path, lambda: trace(path, out), f"a custom model in {path}")
    except AttendantError as error:
        staged = out / "error.part"
        staged.write_text(json.dumps(error.to_json()), encoding="utf-8")  # or not, where the disk is full
        staged.replace(out / "error.json")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # and wait for no thread or callback that the file has left


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
