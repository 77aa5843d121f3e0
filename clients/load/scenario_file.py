"""A scenario's TOML file → the scenario; whatever is wrong is told by the name of its key.

    name, seed, duration_s, warmup_s, requests, max_concurrency
    [target]              transport, address, metrics, …          scenario.py: Target
    [arrivals]            kind, and what this kind needs           arrivals.py
    [[workloads]]         name, model, weight, …                   scenario.py: Workload
      [workloads.inputs]  [workloads.expect]  [workloads.cancel]  [workloads.decoding]  [workloads.parameters]
    [in_process]          repository, requests                     scenario.py: InProcess

Files that are named are sought from the scenario's own folder.
"""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attendant.errors import ConfigError, InputError, UserError
from attendant.printable import shown
from attendant.records import read_file
from attendant.sampling_params import SamplingParams
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson, Ramp, Replay
from clients.load.scenario import ADDRESSES, Cancel, Expect, InProcess, Inputs, Scenario, Target, Workload

Table = Mapping[str, Any]
ConfigT = TypeVar("ConfigT")
_ARRIVALS = (ClosedLoop, Constant, Poisson, Gamma, Ramp, Replay)
_KINDS = {"closed" if kind is ClosedLoop else kind.__name__.lower(): kind for kind in _ARRIVALS}
_TARGET_FILES = ("key_file", "admin_key_file", "ca", "cert", "key")
_PARTS: dict[str, type[Any]] = {"inputs": Inputs, "expect": Expect, "cancel": Cancel, "decoding": SamplingParams}


def read_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        InputError: there is no such file, or it is no TOML.
        ConfigError: a key is unknown, missing, or has a value that it cannot have.
    """
    try:
        table = tomllib.loads(read_file(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"a scenario in TOML at {path}", str(error), "correct the file or its name") from error
    return scenario_from(table, path.parent)


def scenario_from(table: Table, folder: Path = Path()) -> Scenario:
    """A scenario of plain values, as TOML or :meth:`Scenario.plain` has them.

    Args:
        table: key → value.
        folder: where files that it names are sought.

    Raises:
        ConfigError: a key is unknown, missing, or has a value that it cannot have.
    """
    rest = dict(table)
    parts: dict[str, Any] = {}
    if "target" in rest:
        given = _require_table(rest.pop("target"), "target")
        transport = given.get("transport", "grpc")
        address = next((known for name, known in ADDRESSES.items() if name == transport), "")
        target = _build(Target, {"address": address, **given}, "target")
        found: dict[str, Any] = {
            name: _resolve(folder, file) for name in _TARGET_FILES if (file := getattr(target, name))
        }
        parts["target"] = replace(target, **found)
    if "arrivals" in rest:
        table = dict(_require_table(rest.pop("arrivals"), "arrivals"))
        kind = table.pop("kind", "closed")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ConfigError(f"arrivals.kind, one of {list(_KINDS)}", shown(kind), "correct arrivals.kind")
        made = _build(_KINDS[kind], table, "arrivals")
        parts["arrivals"] = replace(made, trace=_resolve(folder, made.trace)) if isinstance(made, Replay) else made
    if "in_process" in rest:
        timed = _build(InProcess, _require_table(rest.pop("in_process"), "in_process"), "in_process")
        parts["in_process"] = (
            replace(timed, repository=_resolve(folder, timed.repository)) if timed.repository else timed
        )
    workloads = rest.pop("workloads", [])
    if not isinstance(workloads, list):
        raise ConfigError("[[workloads]], a list of tables", shown(workloads), "write [[workloads]] before each")
    parts["workloads"] = tuple(
        _parse_workload(one, f"workloads.{number}", folder) for number, one in enumerate(workloads)
    )
    return _build(Scenario, rest, "", parts)


def _parse_workload(table: Any, where: str, folder: Path) -> Workload:
    rest = dict(_require_table(table, where))
    parts = {
        name: _build(kind, _require_table(rest.pop(name), f"{where}.{name}"), f"{where}.{name}")
        for name, kind in _PARTS.items()
        if name in rest
    }
    if "inputs" in parts:
        parts["inputs"] = replace(
            parts["inputs"], files=tuple(_resolve(folder, name) for name in parts["inputs"].files)
        )
    if "expect" in parts and parts["expect"].file:
        parts["expect"] = replace(parts["expect"], file=_resolve(folder, parts["expect"].file))
    if "parameters" in rest:
        parts["parameters"] = dict(_require_table(rest.pop("parameters"), f"{where}.parameters"))
        try:
            json.dumps(parts["parameters"], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"values of JSON in {where}.parameters", str(error), "correct them") from error
    return _build(Workload, {"name": rest.get("model"), **rest}, where, parts)


def _build(kind: type[ConfigT], table: Table, where: str, parts: Table | None = None) -> ConfigT:
    hints, given = get_type_hints(kind), parts or {}
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known or key in given:
            raise ConfigError(f"a key of {where or 'a scenario'}, of {sorted(known)}", _key(where, key), "correct it")
    for name, one in known.items():
        required = one.default is MISSING and one.default_factory is MISSING
        if required and name not in given and table.get(name) is None:
            raise ConfigError(f"the key {_key(where, name)}", "none", "add it")
    values = {key: _parse_value(hints[key], value, _key(where, key)) for key, value in table.items()}
    try:
        return kind(**values, **given)
    except UserError as error:
        raise ConfigError(f"{where or 'a scenario'} with {error.expected}", error.found, error.remedy) from error


def _parse_value(hint: Any, value: Any, key: str) -> Any:
    if get_origin(hint) in (UnionType, Union):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return _require(value in get_args(hint), value, f"one of {list(get_args(hint))}", key)
    if get_origin(hint) is tuple:
        _require(isinstance(value, list), value, "a list", key)
        return tuple(_parse_value(get_args(hint)[0], one, key) for one in value)
    if get_origin(hint) is Mapping:
        for name in _require_table(value, key):
            _require(name.removeprefix("-").isdecimal() and len(name) < 19, name, "a token's number", key)
        return {int(name): _parse_value(float, one, key) for name, one in value.items()}
    if isinstance(value, int | float):
        is_finite = math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
        _require(is_finite, value, "a finite number of at most 19 digits", key)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _require(isinstance(value, hint) and (hint is bool) == isinstance(value, bool), value, hint.__name__, key)


def _require(is_good: bool, value: Any, expected: str, key: str) -> Any:
    if not is_good:
        raise ConfigError(f"{key}, {expected}", shown(value), f"correct {key}")
    return value


def _require_table(value: Any, key: str) -> Table:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}, a table", shown(value), f"write [{key}]")
    return value


def _key(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _resolve(folder: Path, name: str) -> str:
    return str(folder / name)
