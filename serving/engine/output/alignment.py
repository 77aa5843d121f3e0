"""What a token of an answer was read off: the weights of the positions, if a request asks for them.

    of a Transformer       mean over the heads of the last layer's cross-attention
    of a recurrent decoder its alignment
    of a language model    mean over the heads of the last layer's self-attention: to all before it

Legend: B batch, L layers, H heads, S source positions, T target positions, A attended positions.
"""

from collections.abc import Iterable, Mapping

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.tensor_names import ALIGNMENT, CROSS_ATTENTION, SELF_ATTENTION
from attendant.tokenizer import TextTokenizer
from serving.engine.output.detokenizer import IncrementalDetokenizer
from serving.runtime.base import Array

_SHOWN = {ALIGNMENT, CROSS_ATTENTION, SELF_ATTENTION}
NOT_EXPLAINED = (
    "a model that shows what it attends to",
    "an artefact without such a graph",
    "export it with --explain if it can be, or leave the parameter explain out",
)


def aligning_graph(manifest: Manifest) -> str | None:
    """The name of the decoder graph that shows what it reads, if there is one."""
    shown = {signature.name: {spec.name for spec in signature.outputs} for signature in manifest.graphs}
    return next((name for name, outputs in shown.items() if outputs & _SHOWN), None)


def require_aligning(aligning: str | None) -> str:
    """The graph that decodes a request that is to be explained.

    Raises:
        InputError: no graph shows what it reads.
    """
    if aligning is None:
        raise InputError(*NOT_EXPLAINED)
    return aligning


def source_texts(tokens: Iterable[int], tokenizer: TextTokenizer) -> tuple[str, ...]:
    """What stands at each of the S positions of a source, or of a prompt; nothing where it is an image."""
    text = IncrementalDetokenizer(tokenizer)
    return tuple(text.add(int(token)) for token in tokens)


def alignment_of(
    shown: Mapping[str, Array], row: int, position: int, source_length: int | None, newest: int
) -> Array | None:
    """The weights ``[S]`` by which one position of a step read the source, or ``[A]`` all before it; none if not shown.

    Args:
        shown: output name → array.
        row: of the batch.
        position: of the step's; others may be padding.
        source_length: S, where the row's source is followed by padding.
        newest: the position of the cache where the step's position stands.
    """
    if SELF_ATTENTION in shown:
        weights_HA = shown[SELF_ATTENTION][row, :, position, : newest + 1]
        mean_A: Array = weights_HA.mean(0)
        return mean_A
    if not shown.keys() & _SHOWN:
        return None
    if ALIGNMENT in shown:
        alignment_S: Array = shown[ALIGNMENT][row, position, :source_length].copy()
        return alignment_S
    weights_HS = shown[CROSS_ATTENTION][row, -1, :, position, :source_length]
    mean_S: Array = weights_HS.mean(0)
    return mean_S
