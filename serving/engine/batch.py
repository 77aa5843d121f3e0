"""What is decoded now: which sequences stand in which rows, and their state."""

from __future__ import annotations

from dataclasses import dataclass

from serving.engine.kv_cache import KVCache, Rows
from serving.engine.loaded_model import LoadedModel
from serving.engine.prefix_cache import PrefixCache
from serving.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The memory of one engine and who holds it; scheduler, executor and output processor share it.

    Attributes:
        cache: a row for each sequence.
        rows: who holds them.
        prefixes: of prompts seen before; None where they would be wrong.
    """

    cache: KVCache
    rows: Rows
    prefixes: PrefixCache | None

    @classmethod
    def allocate(cls, model: LoadedModel, settings: EngineSettings) -> Batch:
        """Memory for as many sequences as the settings allow."""
        cache = KVCache(model.decoder, settings.max_num_seqs)
        reusable = model.encoder is None and cache.capacity is not None and settings.prefix_cache_bytes > 0
        prefixes = PrefixCache(settings.prefix_cache_bytes) if reusable else None
        return cls(cache=cache, rows=Rows(cache), prefixes=prefixes)
