"""The requests of a server, timed in this process: what serving adds is the difference.

The artefact is loaded as the server's configuration says, and answers one request after the other.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tritonclient.grpc import service_pb2

from attendant.errors import AttendantError, InputError
from attendant.manifest import Manifest
from attendant.parameters import DEVICE, RUNTIME, THREADS
from attendant.sampling_tensors import Tensors, params_from_tensors
from attendant.tasks import resolve, task_named
from attendant.tensor_names import PIXELS, TEXT_INPUT
from clients.load.infer_message import read_array
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TextGenerationModel
from serving.triton.repository.pbtxt import config_from_pbtxt

LENGTH_BYTES = 4  # before each request in a stream of them
WARM_UP = 3
Ask = Callable[[Tensors], None]


def time_requests(model: Path, requests: Sequence[Tensors]) -> list[float]:
    """Load a model of a repository, and answer each request; seconds from its tensors to its answer.

    Args:
        model: its folder, that of ``config.pbtxt``.
        requests: input name → tensor, rows in front.

    Raises:
        ArtefactError: a file is missing or not what the manifest says.
        InputError: a request cannot be answered.
    """
    ask = _load(model)
    for tensors in requests[:WARM_UP]:
        ask(tensors)
    seconds = []
    for tensors in requests:
        began_s = time.perf_counter()
        ask(tensors)
        seconds.append(time.perf_counter() - began_s)
    return seconds


def read_requests(stream: BinaryIO) -> Iterable[Tensors]:
    """The tensors of serialised ``ModelInferRequest`` messages, each behind its length in four bytes."""
    while head := stream.read(LENGTH_BYTES):
        message = service_pb2.ModelInferRequest.FromString(stream.read(int.from_bytes(head, "little")))
        yield {
            tensor.name: read_array(tensor.datatype, tensor.shape, raw)
            for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True)
        }


def _load(model: Path) -> Ask:
    folder = model / "1"
    manifest = Manifest.read(folder)
    config = config_from_pbtxt((model / "config.pbtxt").read_text(encoding="utf-8"))
    parameters = {name: value.string_value for name, value in config.parameters.items()}
    loaded: tuple[Any, ...] = (
        folder,
        manifest,
        int(parameters[THREADS]),
        parameters.get(RUNTIME, "auto"),
        parameters.get(DEVICE, "auto"),
    )
    task = task_named(manifest.task)
    if task.engine:
        loaded = (*loaded, EngineSettings.from_parameters(parameters))
    ask: Ask = resolve(task.offline)(loaded)
    return ask


def load_classifier(loaded: Any) -> Ask:
    """Images, one request after the other."""
    from serving.engine.classifier import ImageClassifier, Images

    classifier = ImageClassifier(*loaded)
    return lambda tensors: _require_answer(classifier.answer([Images(pixels=tensors[PIXELS])])[0])


def load_embedder(loaded: Any) -> Ask:
    from serving.engine.embedder import TextEmbedder

    embedder = TextEmbedder(*loaded)
    return lambda tensors: _require_answer(
        embedder.embed([[text.decode() for text in tensors[TEXT_INPUT].reshape(-1)]])[0]
    )


def load_predictor(loaded: Any) -> Ask:
    """The tensors of the graph ``model``."""
    from serving.engine.predictor import predict
    from serving.runtime.create_runners import create_runners

    runner = create_runners(*loaded)["model"]
    below = loaded[1].config.get("below", {})
    return lambda tensors: _require_answer(predict(runner, [tensors], below)[0])


def load_generator(loaded: Any) -> Ask:
    """Texts or pixels, answered token by token."""
    engine: TextGenerationModel = resolve(task_named(loaded[1].task).engine)(*loaded)

    def ask(tensors: Tensors) -> None:
        subject = engine.read_input(tensors, engine.max_input_tokens, engine.max_input_characters)
        for _ in engine.stream(engine.request(subject, params_from_tensors(tensors))):
            pass

    return ask


def _require_answer(answer: Any) -> None:
    if isinstance(answer, AttendantError):
        raise InputError("a request that can be answered", str(answer), "correct the request")
