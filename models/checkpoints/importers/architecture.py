"""What the importer must know of an architecture: its configuration, its tensors, and what to compare with.

A table pairs our modules with theirs by name, ``{}`` standing for the number of a block, and a parameter's last word
(``weight``, ``bias``) is the same on both sides; or it names single parameters in full. Where numbers differ on the two
sides, it names a module with ours.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.generation import end_tokens

Change = Callable[[Tensor], Tensor]
Table = Mapping[str, "Origin"]
Library = Literal["transformers", "timm"]
LONGEST = 4096
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def identity(tensor: Tensor) -> Tensor:
    return tensor


def first_rows(count: int) -> Change:
    """Of a position table the rows that a shorter model needs."""
    return lambda table: table[:count]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the values of one of our modules or parameters come from.

    Attributes:
        names: what the other library calls it; where it has several names for one tensor, any of them may be in the
            file, and those beside the first must hold the same values.
        change: from their values to ours.
        optional: whether the file may lack it, and zeros do.
        fallback: what stands for it, under any of these names, in a file that lacks it.
    """

    names: tuple[str, ...]
    change: Change = identity
    optional: bool = False
    fallback: tuple[str, ...] = ()


def part(number: int, of: int) -> Change:
    """Of a matrix that stands for several the one of that number, counted from 0, by its rows."""
    return lambda tensor: tensor.chunk(of)[number]


def origin(*names: str, change: Change = identity, optional: bool = False, fallback: tuple[str, ...] = ()) -> Origin:
    """An :class:`Origin` by its names."""
    return Origin(names, change, optional, fallback)


def same(table: Mapping[str, str]) -> dict[str, Origin]:
    """Origins of what is taken as it is: our name → theirs."""
    return {ours: origin(theirs) for ours, theirs in table.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceModel:
    """What is known of an imported folder before its tensors are read.

    Attributes:
        fields: of ``config.json``, those of a timm model's arguments among them.
        values: ``config.json`` itself.
        generation: the fields of ``generation_config.json``, or of ``config.json`` where there is none.
        tokenizer: what the model states of its tokenizer beside its files, by the names of ``tokenizer_config.json``.
        names: of the tensors in the files, as :meth:`Architecture.canonical` has them.
        asked_length: the length that the user wants, if any.
        notes: what the user should read.
    """

    fields: Fields
    generation: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    names: Collection[str] = ()
    asked_length: int | None = None
    notes: list[str] = field(default_factory=list)

    def length(self, trained: int) -> int:
        """The longest sequence: as asked, or as trained but at most ``LONGEST``, since caches are kept for all of it.

        Raises:
            ConfigError: more is asked than the model was made for.
        """
        if self.asked_length is None:
            if trained > LONGEST:
                self.notes.append(f"max_length is {LONGEST}, not the model's {trained}: change it with --max-length")
            return min(trained, LONGEST)
        if not 1 <= self.asked_length <= trained:
            raise ConfigError(f"a --max-length from 1 to {trained}", str(self.asked_length), "choose another")
        return self.asked_length

    def classes(self) -> int:
        """How many classes a classifier tells apart: as many as have labels, or as the configuration says.

        Raises:
            ConfigError: the labels are no object.
        """
        labels = self.fields.get("id2label")
        if labels and not isinstance(labels, Mapping):
            raise ConfigError("id2label, an object from numbers to labels", repr(labels)[:100], "correct config.json")
        return len(labels) if labels else self.fields.size("num_labels", 2)

    def end_token(self) -> int:
        """The first of the tokens that end an answer; all of them are among the checkpoint's details.

        Raises:
            ConfigError: there is none, or one is no token id.
        """
        ends = end_tokens(self.generation)
        return ends[0] if ends else self.token("eos_token_id")

    def token(self, name: str) -> int:
        """The token id that a field of the generation's configuration gives, or else one of the model's.

        Raises:
            ConfigError: there is none, or more than one.
        """
        given = [value for value in (self.generation.get(name), self.fields.get(name)) if value is not None]
        value = given[0] if given else None
        single = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(single) is not int:
            remedy = "correct generation_config.json or config.json"
            raise ConfigError(f"one token id as {name}", repr(value), remedy)
        return single


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture of another library.

    Attributes:
        model_type: as ``config.json`` writes it; a name of ours for timm's, which has none.
        classes: entries of ``architectures`` in ``config.json`` whose weights are this model's, of which the first is
            compared with; of ``architecture`` in timm's.
        family: ours.
        config_from: from what is known of the folder to a configuration of our family.
        origins: from that configuration to the table of our modules and theirs.
        prefix: before the names of all tensors but the heads', in files that were saved with a head.
        spellings: pairs of a pattern and its replacement, for names that older versions of the library wrote.
        ignored: patterns of tensors that are masks, tables that we compute, or heads of other tasks.
        library: whose it is.
        input_first: whether the matrices of its linear layers are [in, out].
    """

    model_type: str
    classes: tuple[str, ...]
    family: str
    config_from: Callable[[ReferenceModel], Any]
    origins: Callable[[Any], Table]
    prefix: str = ""
    spellings: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    library: Library = "transformers"
    input_first: bool = False

    def canonical(self, name: str) -> str:
        """A tensor's name without the prefix and in the newest spelling."""
        for pattern, replacement in self.spellings:
            name = re.sub(pattern, replacement, name)
        return name.removeprefix(self.prefix)

    def is_ignored(self, name: str) -> bool:
        """Whether the model does not need the tensor of this canonical name."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)


def origin_of(parameter: str, table: Table) -> Origin:
    """Where one parameter of ours, or one of its buffers, comes from.

    Args:
        parameter: its full name.
        table: see this module's first lines.

    Returns:
        An origin with names of tensors.

    Raises:
        KeyError: the table has no entry for it.
    """
    numbers = _NUMBER.findall(parameter)
    module, _, last = parameter.rpartition(".")
    places = [(_NUMBER.sub("{}", parameter), ""), (module, f".{last}"), (_NUMBER.sub("{}", module), f".{last}")]
    key, suffix = next((place for place in places if place[0] in table), places[-1])
    entry = table[key]
    names, fallback = (
        tuple(name.format(*numbers) + suffix for name in every) for every in (entry.names, entry.fallback)
    )
    return Origin(names, entry.change, entry.optional, fallback)
