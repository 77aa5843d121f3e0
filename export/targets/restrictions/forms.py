"""The forms that most restrictions have: an attribute's values, a left-out tensor, a rank, a constant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from export.targets.restrictions.graph import Graph, Node
from export.targets.restrictions.restriction import Breach, Restriction
from export.targets.targets import Target

Check = Callable[[Graph, Node], str | None]


def of_nodes(name: str, operators: Collection[str], statement: str, source: str, check: Check) -> Restriction:
    """A restriction on every node of some operators; the check returns what breaks it, or None."""

    def find(graph: Graph, target: Target) -> Iterator[Breach]:
        for node in graph.nodes:
            found = check(graph, node) if node.operator in operators else None
            if found is not None:
                yield Breach(node=node.label, found=found)

    return Restriction(name=name, statement=statement, source=source, find=find, operators=frozenset(operators))


def attribute_in(
    name: str, operators: Collection[str], attribute: str, allowed: Collection[Any], source: str, default: Any = None
) -> Restriction:
    """An attribute has one of some values; ``default`` stands for an attribute that is left out."""

    def check(graph: Graph, node: Node) -> str | None:
        value = node.attribute(attribute, default)
        return None if value is None or value in allowed else f"{attribute} = {value}"

    words = " or ".join(map(str, allowed))
    return of_nodes(name, operators, f"{_named(operators)}: {attribute} is {words}", source, check)


def all_ones(name: str, operators: Collection[str], attribute: str, source: str) -> Restriction:
    """A list attribute is left out, or every entry is 1."""

    def check(graph: Graph, node: Node) -> str | None:
        values = list(node.attribute(attribute, ()))
        return None if set(values) <= {1} else f"{attribute} = {values}"

    return of_nodes(name, operators, f"{_named(operators)}: {attribute} is left out or 1", source, check)


def without_inputs(name: str, operators: Collection[str], inputs: dict[int, str], source: str) -> Restriction:
    """Some optional inputs are left out."""

    def check(graph: Graph, node: Node) -> str | None:
        given = [f"{word} = {node.input(index)}" for index, word in inputs.items() if node.input(index)]
        return ", ".join(given) or None

    return of_nodes(name, operators, f"{_named(operators)}: no {' or '.join(inputs.values())}", source, check)


def without_outputs(name: str, operators: Collection[str], first: int, source: str) -> Restriction:
    """Every output from the index ``first`` on is left out."""

    def check(graph: Graph, node: Node) -> str | None:
        extra = [output for output in node.proto.output[first:] if output]
        return f"further outputs {extra}" if extra else None

    plural = "output" if first == 1 else "outputs"
    return of_nodes(name, operators, f"{_named(operators)}: {first} {plural} and no more", source, check)


def ranks(
    name: str, operators: Collection[str], inputs: dict[int, str], allowed: Collection[int], source: str
) -> Restriction:
    """Some inputs, where they are given, have one of some ranks."""

    def check(graph: Graph, node: Node) -> str | None:
        for index, word in inputs.items():
            axes = graph.axes(node.input(index))
            if node.input(index) and (axes is None or len(axes) not in allowed):
                return f"{word} {shape_text(axes)}"
        return None

    words = " or ".join(f"{rank}-D" for rank in allowed)
    return of_nodes(name, operators, f"{_named(operators)}: {', '.join(inputs.values())} {words}", source, check)


def constant_input(name: str, operators: Collection[str], index: int, word: str, source: str) -> Restriction:
    """An input, where it is given, is known when the engine is built."""

    def check(graph: Graph, node: Node) -> str | None:
        tensor = node.input(index)
        return None if not tensor or graph.is_constant(tensor) else f"{word} = {tensor}, computed by the graph"

    return of_nodes(name, operators, f"{_named(operators)}: {word} is a constant", source, check)


def shape_text(axes: Iterable[Any] | None) -> str:
    """Axes as messages write them, for instance ``[batch, 4, ?, 8]``."""
    return "of unknown rank" if axes is None else "[" + ", ".join("?" if a is None else str(a) for a in axes) + "]"


def _named(operators: Collection[str]) -> str:
    return ", ".join(sorted(operators)) if len(operators) <= 3 else f"{min(operators)} and {len(operators) - 1} more"
