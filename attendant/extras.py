"""What each extra of the distribution promises: packages and modules that import with it, and verbs that run with it.

The README's installation names two of them: ``cpu`` (``make quickstart``) and ``dev`` (``make test``). An extra that
builds on another repeats nothing of it. ``tests/test_extras.py`` holds every row in a process that hides all
distributions which the extra does not bring; docs/reference/extras.md shows the table.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attendant.tasks import TASKS


def _in(package: str, modules: str) -> tuple[str, ...]:
    return tuple(f"{package}.{module}" for module in modules.split())


LEFT_OUT = {
    "the Triton language": (
        *_in("models.kernels", "additive_attention combine_splits compile decode_append_attention decode_attention"),
        *_in("models.kernels", "figures flash_attention gated_product interpreter launch online_softmax ptxas"),
        *_in("models.kernels", "rotary rotate_append skinny_product"),
        *_in("models.kernels", "hopper_figures hopper_flash_attention hopper_partitions tma window_attention"),
        "serving.runtime.torch.attention",
    ),
    "TensorRT's bindings": (
        *_in("export.tensorrt.plugins", "additive_attention combine_splits decode_append_attention decode_attention"),
        *_in("export.tensorrt.plugins", "embedding flash_attention tensor_descriptions window_attention"),
    ),
    "tritonserver": ("serving.triton.backends",),
    "a runtime to check with": (
        *_in("export.precision", "calibration.calibrate calibration.observed rounded tensorrt_form"),
        "export.parity.check",
        "export.inspection",
        "export.mixed_precision",
        *_in("export.quality", "comparison comparison_report measure page"),
    ),
    "ONNX Runtime": ("serving.runtime.ort",),
    "torch": ("serving.runtime.torch",),
    "load tests": ("clients.load",),
    "Jinja2": ("attendant.chat_template",),
}
"""What an extra may lack → the modules that import it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One extra of pyproject.toml, or none.

    Attributes:
        purpose: what one installs it for.
        packages: packages and modules that import with it, with all that they hold.
        lacks: of :data:`LEFT_OUT`: the modules there are not among them.
        verbs: of the command ``attendant``, those that run with it.
    """

    purpose: str
    packages: tuple[str, ...]
    verbs: tuple[str, ...]
    lacks: tuple[str, ...] = ()


_ASK = (*(task.name for task in TASKS.values() if task.verb), "explain", "health")
_LOAD = ("load run", "load sweep", "load compare", "load report")
_MODELS = ("models list", "models describe", "models import", "models train", "models explain")
_EXPORT = ("export onnx", "export torch")
_PROVE = ("verify", "inspect", "compare", "export precision", "export bisect")
_GATEWAY = ("gateway", "keys")
_REPOSITORY = ("repository", "lint", "engines verify")
_SERVING = (
    *("serving.engine", "serving.lint", "serving.runtime"),
    *("serving.triton.canary", "serving.triton.repository", "serving.triton.server"),
)

EXTRAS = {
    "": Extra(
        purpose="ask a server; lay out and check a repository; what Triton's Python backend runs on",
        packages=("attendant", "clients", "commands.attendant", *_SERVING),
        lacks=("load tests", "ONNX Runtime", "torch", "Jinja2"),
        verbs=(*_ASK, *_REPOSITORY),
    ),
    "export": Extra(
        purpose="PyTorch → ONNX; bring a runtime of your own to check it with",
        packages=("models", "export", "attendant.chat_template"),
        lacks=("a runtime to check with", "the Triton language", "TensorRT's bindings"),
        verbs=(*_MODELS, *_EXPORT),
    ),
    "gateway": Extra(
        purpose="OpenAI's API and the playground in front of a Triton",
        packages=("serving.gateway", "attendant.chat_template"),
        verbs=_GATEWAY,
    ),
    "load": Extra(
        purpose="load tests and capacity plans",
        packages=(
            "clients.load",
            "serving.capacity",
            "serving.capacity.profiling.timing",
        ),
        verbs=(*_LOAD, "capacity plan"),
    ),
    "openvino": Extra(
        purpose="a second runtime for a CPU, in which large encoders are faster",
        packages=("serving.runtime.openvino",),
        verbs=(),
    ),
    "cpu": Extra(
        purpose="everything on a CPU: `make quickstart` installs it",
        packages=("attendant", "models", "export", "serving", "clients", "commands"),
        lacks=("the Triton language", "TensorRT's bindings", "tritonserver"),
        verbs=(
            *(*_MODELS, *_EXPORT, *_PROVE, *_REPOSITORY, "serve", *_GATEWAY, *_ASK, *_LOAD),
            *("capacity measure", "capacity plan", "bench offline", "quickstart"),
        ),
    ),
    "gpu": Extra(
        purpose="engines, kernels and torch on a GPU; TensorRT's bindings come with its image",
        packages=("models", "export", "serving.runtime"),
        lacks=("TensorRT's bindings",),
        verbs=(*_MODELS, *_EXPORT, "export tensorrt", "export refit", *_PROVE, "engines verify"),
    ),
    "dev": Extra(
        purpose="the tests and checks of this repository: `make test` installs it, with the Triton language",
        packages=("attendant", "models", "export", "serving", "clients", "commands"),
        lacks=("TensorRT's bindings", "tritonserver"),
        verbs=(),
    ),
}
"""Extra → its promise; "" is the distribution with none."""

_PROVIDERS = {
    "export": ("matplotlib", "onnx", "onnx_ir", "onnxscript", "safetensors", "sklearn", "torch"),
    "cpu": ("onnxruntime",),
    "load": ("aiohttp", "jinja2"),
    "gateway": (
        *("fastapi", "h11", "limits", "opentelemetry", "prometheus_client", "pybreaker", "pydantic"),
        *("pydantic_core", "python_multipart", "requests", "starlette", "uvicorn"),
    ),
    "openvino": ("openvino",),
    "gpu": ("cuda",),
    "dev": ("triton",),
}


def provider_of(module: str) -> str | None:
    """The extra to install for an imported module that is missing; None if no extra brings it.

    Args:
        module: as ModuleNotFoundError names it, for instance ``onnx.helper``.
    """
    top = module.partition(".")[0]
    return next((extra for extra, modules in _PROVIDERS.items() if top in modules), None)


def tables() -> str:
    """The promises as tables in Markdown: extras, their verbs, and what is left out."""
    return "".join(_rows())


def _rows() -> Iterator[str]:
    yield "| extra | for | imports | lacks |\n|---|---|---|---|\n"
    for name, extra in EXTRAS.items():
        yield f"| {_title(name)} | {extra.purpose} | {_code(extra.packages)} | {', '.join(extra.lacks)} |\n"
    yield "\n| extra | verbs of `attendant` |\n|---|---|\n"
    for name, extra in EXTRAS.items():
        if extra.verbs:
            yield f"| {_title(name)} | {_code(extra.verbs)} |\n"
    yield "\n| lacks | modules that an extra does not promise then |\n|---|---|\n"
    for need, modules in LEFT_OUT.items():
        yield f"| {need} | {_code(modules)} |\n"


def _title(extra: str) -> str:
    return f"`{extra}`" if extra else "(none)"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
