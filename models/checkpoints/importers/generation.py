"""How an imported checkpoint wants its answers decoded: ``generation_config.json``, or older fields of ``config.json``.

What greedy decoding follows becomes details of the checkpoint; what it does not follow yet is kept and said.
"""

from collections.abc import Mapping
from typing import Any

from attendant.errors import ConfigError

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "guidance_scale": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_eos_token_id": (),
    "forced_decoder_ids": ([],),
    "begin_suppress_tokens": ([],),
    "sequence_bias": ({}, []),
    "exponential_decay_length_penalty": (),
    "stop_strings": ("", []),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "constraints": ([],),
    "force_words_ids": ([],),
    "remove_invalid_values": (False,),
    "token_healing": (False,),
}
_SAMPLING = (
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "top_h",
    "min_p",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
)
_FOLLOWED = ("forced_bos_token_id", "force_bos_token_to_be_generated", "bad_words_ids", "suppress_tokens")
# These bound or speed up a search, or shape a beam search, which `num_beams` above stands for.
_OTHERS = (
    "max_length",
    "max_new_tokens",
    "max_time",
    "early_stopping",
    "length_penalty",
    "diversity_penalty",
    "num_return_sequences",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "renormalize_logits",
    "low_memory",
    "cache_implementation",
)
_BEYOND = 1 << 31
"""What token ids are stored in counts no further."""
GENERATION_FIELDS = frozenset({*_NEUTRAL, *_SAMPLING, *_FOLLOWED, *_OTHERS})


def end_tokens(values: Mapping[str, Any]) -> list[int]:
    """Every token that ends an answer; none where ``eos_token_id`` is null or absent.

    Raises:
        ConfigError: they are no token ids.
    """
    value = values.get("eos_token_id")
    tokens = [] if value is None else value if isinstance(value, list) else [value]
    return _token_ids("eos_token_id", tokens)


def generation_details(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a decoder must know beyond the start and the end.

    Args:
        values: the fields of ``generation_config.json``, or of ``config.json`` where there is none.

    Returns:
        Of these, what applies: ``forced_start_token``, what follows a prompt of one token; ``suppressed_tokens``, which
        no answer holds; ``sampling_defaults``; and ``generation_not_followed``, which would change greedy answers.

    Raises:
        ConfigError: a field that would have to be followed is malformed.
    """
    phrases = values.get("bad_words_ids") or []
    if not isinstance(phrases, list) or not all(isinstance(phrase, list) for phrase in phrases):
        raise ConfigError("bad_words_ids to be lists of token ids", repr(phrases), "correct generation_config.json")
    ends = end_tokens(values)
    _token_ids("bad_words_ids", [token for phrase in phrases for token in phrase])
    longer = [phrase for phrase in phrases if len(phrase) > 1]
    # The other library, too, never forbids the end.
    single = [phrase[0] for phrase in phrases if len(phrase) == 1 and phrase[0] not in ends]
    given = values.get("suppress_tokens") or []
    tokens = _token_ids("suppress_tokens", [*single, *given] if isinstance(given, list) else given)
    token = values.get("forced_bos_token_id")
    if token is None and values.get("force_bos_token_to_be_generated"):  # as files of 2020 say it
        token = values.get("bos_token_id")
    asked = {name: values[name] for name in _NEUTRAL if values.get(name) is not None}
    not_followed = {name: value for name, value in asked.items() if value not in _NEUTRAL[name]}
    details = {
        "forced_start_token": None if token is None else _token_ids("forced_bos_token_id", [token])[0],
        "suppressed_tokens": sorted(set(tokens)),
        "sampling_defaults": {name: values[name] for name in _SAMPLING if values.get(name) is not None},
        "generation_not_followed": {**not_followed, **({"bad_words_ids": longer} if longer else {})},
    }
    return {name: value for name, value in details.items() if value not in (None, [], {})}


def _token_ids(name: str, tokens: Any) -> list[int]:
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token < _BEYOND for token in tokens):
        raise ConfigError(f"{name} to be token ids", repr(tokens), "correct generation_config.json or config.json")
    return tokens
