"""``ModelConfig`` messages as ``config.pbtxt``, and back."""

from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError

HEADER = "# Written by `attendant repository`; edit the manifest's source, not this file.\n"


def pbtxt_from_config(config: Any) -> str:
    """The text of a message, with ``max_batch_size`` written out even where it is 0, and maps sorted by key."""
    text = text_format.MessageToString(config, as_utf8=True)
    zero = "" if config.max_batch_size else "max_batch_size: 0\n"
    return HEADER + zero + text


def config_from_pbtxt(text: str) -> Any:
    """The message of a text.

    Raises:
        ArtefactError: it is no ``ModelConfig``.
    """
    try:
        return text_format.Parse(text, pb.ModelConfig())
    except (text_format.ParseError, ValueError) as error:  # a number that its type does not hold
        raise ArtefactError("a config.pbtxt", str(error), "write it with `attendant repository`") from error
