"""A scenario's TOML file → the scenario; whatever is wrong is told by the name of its key.

    name, seed, duration_s, warmup_s, requests, max_concurrency
    [target]              transport, address, metrics, …          scenario.py: Target
    [arrivals]            kind, and what this kind needs           arrivals.py
    [[workloads]]         name, model, weight, …                   scenario.py: Workload
      [workloads.inputs]  [workloads.expect]  [workloads.cancel]  [workloads.decoding]  [workloads.parameters]
    [in_process]          repository, requests                     scenario.py: InProcess

Files that are named are sought from the scenario's own folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attendant.errors import ConfigError, InputError, UserError
from attendant.sampling_params import SamplingParams
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson, Ramp, Replay
from clients.load.scenario import Cancel, Expect, InProcess, Inputs, Scenario, Target, Workload

Table = Mapping[str, Any]
Made = TypeVar("Made")
_ARRIVALS = (ClosedLoop, Constant, Poisson, Gamma, Ramp, Replay)
_KINDS = {"closed" if kind is ClosedLoop else kind.__name__.lower(): kind for kind in _ARRIVALS}
_PARTS: dict[str, type[Any]] = {"inputs": Inputs, "expect": Expect, "cancel": Cancel, "decoding": SamplingParams}


def read_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        InputError: there is no such file, or it is no TOML.
        ConfigError: a key is unknown, missing, or has a value that it cannot have.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
        target = _made(Target, _table(rest.pop("target"), "target"), "target")
        parts["target"] = replace(target, key_file=_at(folder, target.key_file)) if target.key_file else target
    if "arrivals" in rest:
        parts["arrivals"] = _arrivals(_table(rest.pop("arrivals"), "arrivals"), folder)
    if "in_process" in rest:
        parts["in_process"] = _in_process(_table(rest.pop("in_process"), "in_process"), folder)
    workloads = rest.pop("workloads", [])
    if not isinstance(workloads, list):
        raise ConfigError("[[workloads]], a list of tables", repr(workloads), "write [[workloads]] before each")
    parts["workloads"] = tuple(_workload(one, f"workloads.{number}", folder) for number, one in enumerate(workloads))
    return _made(Scenario, rest, "", parts)


def _workload(table: Any, where: str, folder: Path) -> Workload:
    rest = dict(_table(table, where))
    parts = {
        name: _made(kind, _table(rest.pop(name), f"{where}.{name}"), f"{where}.{name}")
        for name, kind in _PARTS.items()
        if name in rest
    }
    if "inputs" in parts:
        parts["inputs"] = replace(parts["inputs"], files=tuple(_at(folder, name) for name in parts["inputs"].files))
    if "expect" in parts and parts["expect"].file:
        parts["expect"] = replace(parts["expect"], file=_at(folder, parts["expect"].file))
    if "parameters" in rest:
        parts["parameters"] = dict(_table(rest.pop("parameters"), f"{where}.parameters"))
    return _made(Workload, {"name": rest.get("model"), **rest}, where, parts)


def _arrivals(table: Table, folder: Path) -> Any:
    rest = dict(table)
    kind = rest.pop("kind", "closed")
    if kind not in _KINDS:
        raise ConfigError(f"arrivals.kind, one of {list(_KINDS)}", repr(kind), "correct arrivals.kind")
    made = _made(_KINDS[kind], rest, "arrivals")
    return replace(made, trace=_at(folder, made.trace)) if isinstance(made, Replay) else made


def _in_process(table: Table, folder: Path) -> InProcess:
    made = _made(InProcess, table, "in_process")
    return replace(made, repository=_at(folder, made.repository)) if made.repository else made


def _made(kind: type[Made], table: Table, where: str, parts: Table | None = None) -> Made:
    hints, given = get_type_hints(kind), parts or {}
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known or key in given:
            raise ConfigError(f"a key of {where or 'a scenario'}, of {sorted(known)}", _key(where, key), "correct it")
    for name, one in known.items():
        required = one.default is MISSING and one.default_factory is MISSING
        if required and name not in given and table.get(name) is None:
            raise ConfigError(f"the key {_key(where, name)}", "none", "add it")
    values = {key: _value(hints[key], value, _key(where, key)) for key, value in table.items()}
    try:
        return kind(**values, **given)
    except UserError as error:
        raise ConfigError(f"{where or 'a scenario'} with {error.expected}", error.found, error.remedy) from error


def _value(hint: Any, value: Any, key: str) -> Any:
    if get_origin(hint) in (UnionType, Union):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return _checked(value in get_args(hint), value, f"one of {list(get_args(hint))}", key)
    if get_origin(hint) is tuple:
        _checked(isinstance(value, list), value, "a list", key)
        return tuple(_value(get_args(hint)[0], one, key) for one in value)
    if get_origin(hint) is Mapping:
        return {_number(name, key): float(one) for name, one in _table(value, key).items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _checked(isinstance(value, hint) and (hint is bool) == isinstance(value, bool), value, hint.__name__, key)


def _number(name: str, key: str) -> int:
    _checked(name.lstrip("-").isdigit(), name, "a token's number", key)
    return int(name)


def _checked(is_good: bool, value: Any, wanted: str, key: str) -> Any:
    if not is_good:
        raise ConfigError(f"{key}, {wanted}", repr(value), f"correct {key}")
    return value


def _table(value: Any, key: str) -> Table:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}, a table", repr(value), f"write [{key}]")
    return value


def _key(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _at(folder: Path, name: str) -> str:
    return str(folder / name)
