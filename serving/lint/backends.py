"""Which backend Triton takes for a configuration, and the file that the backend opens.

Source: core, ``AutoCompleteBackendFields`` in ``src/model_config_utils.cc``, which runs under all flags.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

ENSEMBLE = "ensemble"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend of Triton's own.

    Attributes:
        name: in ``backend``.
        platforms: what ``platform`` may say with it, besides nothing.
        files: what it opens in a version's folder, one of them.
        keeps_states: whether it implements implicit state.
    """

    name: str
    platforms: tuple[str, ...] = ()
    files: tuple[str, ...]
    keeps_states: bool = False


# In the order in which Triton looks for files.
_EVERY = (
    Backend(name="tensorrt", platforms=("tensorrt_plan",), files=("model.plan",), keeps_states=True),
    Backend(name="onnxruntime", platforms=("onnxruntime_onnx",), files=("model.onnx",), keeps_states=True),
    Backend(name="openvino", files=("model.xml",)),
    Backend(
        name="pytorch",
        platforms=("pytorch_libtorch", "libtorch", "torch_aoti"),
        files=("model.pt", "model.pt2"),
        keeps_states=True,
    ),
    Backend(name="python", files=("model.py",)),
)
BACKENDS = {backend.name: backend for backend in _EVERY}


def backend_named_by(config: Any, name: str, files: Collection[str]) -> str:
    """The backend of a configuration: as it says, or as platform, file or name tell; empty where nothing does.

    Args:
        config: the ``ModelConfig``.
        name: the model's; what follows its first dot names a backend of others, where nothing else does.
        files: of the first version's folder.
    """
    if config.platform == ENSEMBLE or config.HasField("ensemble_scheduling"):
        return ENSEMBLE
    if config.backend:
        return str(config.backend)
    if config.platform:
        return _first(backend for backend in _EVERY if config.platform in backend.platforms)
    named = config.default_model_filename
    present = {named} if named else set(files)
    own = _first(backend for backend in _EVERY if present.intersection(backend.files))
    return own or ("" if named else name.partition(".")[2])


def _first(backends: Iterator[Backend]) -> str:
    return next((backend.name for backend in backends), "")
