"""Rules on warm-up: requests that Triton makes itself before a model is ready."""

from __future__ import annotations

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import REFUSED

_INSTANCE = "core, src/backend_model_instance.cc: GenerateWarmupData"


def _missing(model: Model) -> Iterator[Finding]:
    # A Python model warms itself in initialize(), and ours are asked their example before they count as ready.
    if model.backend in ("python", ENSEMBLE) or model.states:
        return
    if not model.config.model_warmup:
        yield Finding(where="model_warmup", found="none")


def _skipped(model: Model) -> Iterator[Finding]:
    for sample in model.config.model_warmup:
        if not sample.batch_size:
            yield Finding(where=f"model_warmup {sample.name!r}", found="no batch_size")


def _samples(model: Model) -> Iterator[Finding]:
    required = {tensor.name for tensor in model.config.input if not tensor.optional}
    for sample in model.config.model_warmup:
        where = f"model_warmup {sample.name!r}"
        if sample.batch_size > max(1, model.config.max_batch_size):
            found = f"batch_size {sample.batch_size}; max_batch_size is {model.config.max_batch_size}"
            yield Finding(where=where, found=found)
        for name in sorted(required - set(sample.inputs)):
            yield Finding(where=where, found=f"no input {name!r}")
        for name, tensor in sorted(sample.inputs.items()):
            if -1 in tensor.dims:
                yield Finding(where=where, found=f"dims {list(tensor.dims)} of {name!r}")
            if tensor.input_data_file and not (model.folder / "warmup" / tensor.input_data_file).is_file():
                yield Finding(where=where, found=f"no file warmup/{tensor.input_data_file}")


def _stateful(model: Model) -> Iterator[Finding]:
    if model.states and model.config.model_warmup:
        yield Finding(where="model_warmup", found=f"{len(model.config.model_warmup)} beside implicit states")


WARM_UP_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="warm-up",
        severity="warning",
        statement="a model is warmed up before it is ready; not asked of Python models, ensembles and implicit states",
        consequence="the first requests pay for memory, kernels and autotuning, after the server has said READY",
        source="server, docs/user_guide/model_configuration.md",
        remedy="add model_warmup at the smallest and the largest batch, and for every TensorRT profile",
        find=_missing,
    ),
    Rule(
        name="warm-up-skipped",
        severity="warning",
        statement="a warm-up states its batch_size",
        consequence="it is skipped without a word: its batch_size is 0",
        source=_INSTANCE,
        remedy="set batch_size, 1 where max_batch_size is 0",
        find=_skipped,
    ),
    Rule(
        name="warm-up-sample",
        severity="error",
        statement="a warm-up gives every required input, of a fixed shape, in a batch that the model takes",
        consequence=REFUSED,
        source=_INSTANCE,
        remedy="state dims without −1 for each input",
        find=_samples,
    ),
    Rule(
        name="warm-up-state",
        severity="error",
        statement="a model with implicit states has no model_warmup",
        consequence="a warm-up belongs to no sequence: its output states are refused, and the model fails to load",
        source="core, src/backend_model.cc: TRITONBACKEND_StateNew; by reading, not run",
        remedy="leave it out, and ask one short sequence before traffic comes",
        find=_stateful,
    ),
)
