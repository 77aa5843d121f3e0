"""Real sequences and slots to try the parts of an engine on, and what a step would be fed."""

import time

import numpy as np

from attendant.sampling_params import SamplingParams
from attendant.tokenizer import Tokenizer
from serving.engine.loaded_model import LoadedModel
from serving.engine.request import Request, create_first_sequence
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.cached_decoder import MOVING
from tests.text_checkpoints import byte_level_bpe

END = 1


def written(decoder, **parts):
    """What an engine decodes with; the tokens are those of a byte-level BPE, of which 1 ends an answer."""
    tokenizer = Tokenizer(byte_level_bpe())
    rules = TokenRules(end=frozenset({END}))
    guides = Guides(tokenizer, tokenizer.library.get_vocab_size(), rules.end)
    return LoadedModel(**{"decoder": decoder, "tokenizer": tokenizer, "rules": rules, "guides": guides, **parts})


def request_of(sink=print, prompt=(5, 6), max_tokens=4, text="", **options):
    """A request of a prompt."""
    return Request(
        prompt=prompt,
        max_tokens=max_tokens,
        options=SamplingParams(**options),
        text=text,
        input_tokens=len(prompt),
        sink=sink,
        arrived_s=time.monotonic(),
    )


def sequence(written, sink=print, **changes):
    """The first sequence of a request."""
    return create_first_sequence(request_of(sink, **changes), written)


class Seen:
    """A runner that runs nothing: what it is fed is what a step reads and writes."""

    def __init__(self, runner):
        self.signature, self.feeds = runner.signature, {}

    def run(self, feeds):
        self.feeds = {name: feed if isinstance(feed, np.ndarray) else feed.numpy() for name, feed in feeds.items()}
        return {}


def bound(slots, seen, begin, end):
    """Tensor → what a step of these rows is fed: views of the slots' memory."""
    rows = end - begin
    slots.decoder(begin, end, seen).step(np.zeros((rows, 1), dtype=np.int64), np.zeros(rows, dtype=np.int64))
    return {name: feed for name, feed in seen.feeds.items() if name not in MOVING}


def source_of(signature, length, value):
    """What an encoder might return for one source of a length: every number is the value, and the mask is true."""
    aliases = set(signature.aliases.values())
    fed = [spec for spec in signature.inputs if spec.name not in aliases and spec.name not in MOVING]
    shapes = {spec.name: [length if isinstance(axis, str) else axis for axis in spec.axes[1:]] for spec in fed}
    types = {spec.name: spec.dtype for spec in fed}
    return {name: np.full(shape, value).astype(types[name]) for name, shape in shapes.items()}
