"""Rules on warm-up: requests that Triton makes itself before a model is ready."""

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, rule

_INSTANCE = "core, src/backend_model_instance.cc: GenerateWarmupData"


@rule(
    severity="warning",
    statement="a model is warmed up before it is ready; not required of Python models, ensembles and implicit states",
    consequence="the first requests pay for memory, kernels and autotuning, after the server has said READY",
    source="server, docs/user_guide/model_configuration.md",
    remedy="add model_warmup at the smallest and the largest batch, and for every TensorRT profile",
)
def warm_up(model: Model) -> Iterator[Finding]:
    # A Python model warms itself in initialize(), and ours are asked their example before they count as ready.
    if model.backend in ("python", ENSEMBLE) or model.states:
        return
    if not model.config.model_warmup:
        yield Finding(where="model_warmup", found="none")


@rule(
    severity="warning",
    statement="a warm-up states its batch_size",
    consequence="it is skipped without a word: its batch_size is 0",
    source=_INSTANCE,
    remedy="set batch_size, 1 where max_batch_size is 0",
)
def warm_up_skipped(model: Model) -> Iterator[Finding]:
    for sample in model.config.model_warmup:
        if not sample.batch_size:
            yield Finding(where=f"model_warmup {sample.name!r}", found="no batch_size")


@rule(
    severity="error",
    statement="a model with implicit states has no model_warmup",
    consequence="a warm-up belongs to no sequence: its output states are refused, and the model fails to load",
    source="core, src/backend_model.cc: TRITONBACKEND_StateNew; by reading, not run",
    remedy="leave it out, and ask one short sequence before traffic comes",
)
def warm_up_state(model: Model) -> Iterator[Finding]:
    if model.states and model.config.model_warmup:
        yield Finding(where="model_warmup", found=f"{len(model.config.model_warmup)} with implicit states")
