"""How a token of an answer was read off the source: the weights of the positions, if a request asks for them.

    of a Transformer       mean over the heads of the last layer's cross-attention
    of a recurrent decoder its alignment

Legend: B batch, L layers, H heads, S source positions, T target positions.
"""

from collections.abc import Mapping

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.tensor_names import ALIGNMENT, CROSS_ATTENTION
from attendant.tokenizer import TextTokenizer
from serving.engine.output.detokenizer import IncrementalDetokenizer
from serving.runtime.base import Array

NOT_EXPLAINED = (
    "a model that shows what it attends to",
    "an artefact without such a graph",
    "export it with --explain if it can be, or leave the parameter explain out",
)


def aligning_graph(manifest: Manifest) -> str | None:
    """The name of the decoder graph that shows how it reads the source, if there is one."""
    shown = {signature.name: {spec.name for spec in signature.outputs} for signature in manifest.graphs}
    return next((name for name, outputs in shown.items() if outputs & {ALIGNMENT, CROSS_ATTENTION}), None)


def require_aligning(aligning: str | None) -> str:
    """The graph that decodes a request that is to be explained.

    Raises:
        InputError: no graph shows how it reads the source.
    """
    if aligning is None:
        raise InputError(*NOT_EXPLAINED)
    return aligning


def source_texts(source: Mapping[str, Array], tokenizer: TextTokenizer) -> tuple[str, ...]:
    """What stands at each of the S positions of a source; nothing where it is an image."""
    text = IncrementalDetokenizer(tokenizer)
    source_S = source["source_ids"][0] if "source_ids" in source else ()
    return tuple(text.add(int(token)) for token in source_S)


def alignment_of(shown: Mapping[str, Array], row: int, position: int, source_length: int | None) -> Array:
    """The weights ``[S]`` by which one position of a step read the source.

    Args:
        shown: output name → array.
        row: of the batch.
        position: of the step's; others may be padding.
        source_length: S, where the row's source is followed by padding.
    """
    if ALIGNMENT in shown:
        alignment_S: Array = shown[ALIGNMENT][row, position, :source_length].copy()
        return alignment_S
    weights_HS = shown[CROSS_ATTENTION][row, -1, :, position, :source_length]
    mean_S: Array = weights_HS.mean(0)
    return mean_S
