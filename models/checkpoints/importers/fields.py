"""The fields of an imported ``config.json``: each is either understood, known to change nothing, or a refusal.

A field that nobody looked at may change what the model computes; a wrong model that runs is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from attendant.errors import ConfigError
from models.checkpoints.fitting import LARGEST_SIZE
from models.checkpoints.importers.generation import GENERATION_FIELDS

ChoiceT = TypeVar("ChoiceT")
_WITHOUT_EFFECT = re.compile(
    # provenance, and how the other library runs the model
    r"_.*|architectures|model_type|name_or_path|author|license|.*_version|unsloth.*|dtype|torch_dtype|attn_implementation"
    r"|use_cache|output_past|return_dict|output_attentions|output_hidden_states|torchscript|gradient_checkpointing|use_bfloat16"
    r"|chunk_size_feed_forward|pretraining_tp|tokenizer_class|is_encoder_decoder|is_decoder_only"
    # training
    r"|.*dropout.*|.*_pdrop|.*layerdrop|initializer_.*|init_std|.*_loss.*"
    # other tasks' heads
    r"|id2label|label2id|num_labels|problem_type|finetuning_task|task_specific_params|prefix|summary_.*"
    # token ids, read where a model needs them
    r"|(bos|eos|pad|sep|cls|unk|mask|decoder_start)_token_id"
)

_TOKEN = re.compile("(bos|eos|pad|sep|cls|unk|mask|decoder_start)_token_id")


class Fields:
    """What a ``config.json`` says.

    Args:
        values: the fields.
        place: before the names of fields in messages, where they stand in another configuration.
    """

    def __init__(self, values: Mapping[str, Any], place: str = "") -> None:
        self._values = values
        self._place = place
        self._understood: set[str] = set()
        self._parts: list[Fields] = []

    def part(self, name: str) -> Fields:
        """The configuration that a field holds; what nobody asks of it, :meth:`refuse_rest` refuses here.

        Raises:
            ConfigError: the field holds none.
        """
        value = self.get(name)
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self._place_of(name)} to be an object", repr(value), "correct config.json")
        self._parts.append(Fields(value, f"{self._place}{name}."))
        return self._parts[-1]

    def get(self, name: str, default: Any = None) -> Any:
        """A field's value, or the default where the field is absent; null is a value."""
        self._understood.add(name)
        return self._values.get(name, default)

    def is_null(self, name: str) -> bool:
        """Whether a field is there and says null."""
        return name in self._values and self._values[name] is None

    def size(self, name: str, default: int | None = None) -> int:
        """A positive integer; null counts as absent.

        Raises:
            ConfigError: it is none, or absent and has no default.
        """
        value = self._value_or(name, default)
        if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
            raise ConfigError(
                f"{self._place_of(name)} to be a positive integer of at most {LARGEST_SIZE}",
                repr(value),
                "correct config.json",
            )
        return value

    def number(self, name: str, default: float) -> float:
        """A number; null counts as absent.

        Raises:
            ConfigError: it is none.
        """
        value = self._value_or(name, default)
        if type(value) not in (int, float):
            raise ConfigError(f"{self._place_of(name)} to be a number", repr(value), "correct config.json")
        try:
            return float(value)
        except OverflowError as error:
            raise ConfigError(f"{self._place_of(name)} that a float holds", str(value)[:50], "correct it") from error

    def flag(self, name: str, default: bool) -> bool:
        """True or false; null counts as absent.

        Raises:
            ConfigError: it is neither.
        """
        value = self._value_or(name, default)
        if type(value) is not bool:
            raise ConfigError(f"{self._place_of(name)} to be true or false", repr(value), "correct config.json")
        return value

    def choice(self, name: str, choices: Mapping[str, ChoiceT], default: str) -> ChoiceT:
        """What one of several words stands for; null counts as absent.

        Raises:
            ConfigError: the word is none of them.
        """
        value = self._value_or(name, default)
        if not isinstance(value, str) or value not in choices:
            raise ConfigError(
                f"{self._place}{name}, one of {sorted(choices)}", repr(value), "this model is not supported"
            )
        return choices[value]

    def only(self, name: str, supported: Any) -> None:
        """Refuse every value but the one that is supported; null and an absent field count as that one.

        Raises:
            ConfigError: it is another.
        """
        value = self._value_or(name, supported)
        if value != supported:
            raise ConfigError(f"{self._place}{name}: {supported!r}", repr(value), "this model is not supported")

    def without_effect(self, *names: str) -> None:
        """Say of fields that the other library does not read them, or that they change no number."""
        self._understood.update(names)

    def refuse_rest(self) -> None:
        """Refuse what nobody asked for, unless it is switched off or known to change nothing.

        Raises:
            ConfigError: such a field is left, and the message names all of them; or one that every model may have is
                malformed.
        """
        self._check_common()
        known = self._understood | GENERATION_FIELDS
        left = {
            name: value
            for name, value in self._values.items()
            if value and name not in known and not _WITHOUT_EFFECT.fullmatch(name)
        }
        if left:
            raise ConfigError(
                "only fields of config.json whose effect is known",
                ", ".join(f"{self._place}{name}: {value!r}" for name, value in left.items())[:500],
                "if they change nothing that the model computes, take them out of config.json",
            )
        for part in self._parts:
            part.refuse_rest()

    def _check_common(self) -> None:
        for name, value in self._values.items():
            tokens = value if isinstance(value, list) else [value]
            if _TOKEN.fullmatch(name) and not all(one is None or type(one) is int for one in tokens):
                raise ConfigError(f"{self._place_of(name)} to be a token id", repr(value)[:100], "correct config.json")
            if name in ("id2label", "label2id") and value is not None and not isinstance(value, Mapping):
                raise ConfigError(f"{self._place_of(name)} to be an object", repr(value)[:100], "correct config.json")
        if self._values.get("num_labels") is not None:
            self.size("num_labels")

    def _place_of(self, name: str) -> str:
        return f"{self._place}{name} in config.json"

    def _value_or(self, name: str, default: Any) -> Any:
        value = self.get(name)
        return default if value is None else value
