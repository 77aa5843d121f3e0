"""Rules on ensembles: models made of steps by other models."""

from __future__ import annotations

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import LIFECYCLE, REFUSED, VALIDATION

_ENSEMBLES = f"{VALIDATION}: ValidateEnsembleSchedulingConfig"


def _absent(model: Model) -> Iterator[Finding]:
    for index, step in enumerate(model.config.ensemble_scheduling.step):
        if step.model_name not in model.neighbours:
            yield Finding(where=f"ensemble_scheduling.step[{index}]", found=f"no model {step.model_name!r}")


def _tensors(model: Model) -> Iterator[Finding]:
    for index, step in enumerate(model.config.ensemble_scheduling.step):
        config = model.neighbours.get(step.model_name)
        for kind, names in (("input", step.input_map), ("output", step.output_map)):
            where, tensors = f"ensemble_scheduling.step[{index}].{kind}_map", getattr(config, kind) if config else []
            for name in sorted(set(names) - {tensor.name for tensor in tensors}) if tensors else []:
                yield Finding(where=where, found=f"{step.model_name!r} has no {kind} {name!r}")
            for tensor in tensors if kind == "input" else []:
                if not tensor.optional and tensor.name not in names:
                    yield Finding(where=where, found=f"nothing for {tensor.name!r} of {step.model_name!r}")


def _flow(model: Model) -> Iterator[Finding]:
    steps = model.config.ensemble_scheduling.step
    written = {tensor.name for tensor in model.config.input} | {
        name for step in steps for name in step.output_map.values()
    }
    for index, step in enumerate(steps):
        for name in sorted(set(step.input_map.values()) - written):
            yield Finding(where=f"ensemble_scheduling.step[{index}].input_map", found=f"nothing writes {name!r}")
    for tensor in model.config.output:
        if steps and tensor.name not in written:
            yield Finding(where=f"output {tensor.name!r}", found="nothing writes it")
    read = {tensor.name for tensor in model.config.output} | {
        name for step in steps for name in step.input_map.values()
    }
    for name in sorted(written - read) if steps else []:
        yield Finding(where="ensemble_scheduling", found=f"nothing reads {name!r}")


def _extras(model: Model) -> Iterator[Finding]:
    config = model.config
    if model.backend != ENSEMBLE:
        return
    if config.platform != ENSEMBLE:
        yield Finding(where="platform", found=repr(config.platform))
    if not config.ensemble_scheduling.step:
        yield Finding(where="ensemble_scheduling", found="no step")
    for field in ("instance_group", "model_warmup"):
        if getattr(config, field):
            yield Finding(where=field, found=f"{len(getattr(config, field))} of an ensemble")
    if config.HasField("optimization"):
        yield Finding(where="optimization", found="of an ensemble")


ENSEMBLE_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="ensemble-model",
        severity="error",
        statement="every step names a model of the repository",
        consequence=REFUSED,
        source=f"{LIFECYCLE}: the dependency graph",
        remedy="add the model to the repository, or correct its name",
        find=_absent,
    ),
    Rule(
        name="ensemble-tensor",
        severity="error",
        statement="the keys of a step's maps are tensors of its model, all its required inputs among them",
        consequence=REFUSED,
        source="core, src/ensemble_scheduler/ensemble_utils.cc",
        remedy="keys are the step's own names, values the ensemble's",
        find=_tensors,
    ),
    Rule(
        name="ensemble-flow",
        severity="error",
        statement="every tensor that is read is written, and every one that is written is read",
        consequence=REFUSED,
        source=_ENSEMBLES,
        remedy="connect it: one step's output_map and another's input_map have the same value",
        find=_flow,
    ),
    Rule(
        name="ensemble-settings",
        severity="error",
        statement='an ensemble says platform: "ensemble", has steps, and no instances, warm-up or optimization',
        consequence=REFUSED,
        source=_ENSEMBLES,
        remedy="set these on the models of its steps",
        find=_extras,
    ),
)
