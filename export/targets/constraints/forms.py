"""The forms that most constraints have: an attribute's values, a left-out tensor, a rank, a constant."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from export.targets.constraints.constraint import CONSTRAINTS, Constraint, Violation
from export.targets.constraints.graph import Graph, Node
from export.targets.targets import RuntimeTarget

Check = Callable[[Graph, Node], str | None]
Find = Callable[[Graph, RuntimeTarget], Iterable[Violation]]


def of_graph(
    name: str, statement: str, source: str, operators: Collection[str] = frozenset()
) -> Callable[[Find], Find]:
    """Register what finds every place where a graph violates a constraint."""

    def register(find: Find) -> Find:
        CONSTRAINTS[name] = Constraint(
            name=name, statement=statement, source=source, find=find, operators=frozenset(operators)
        )
        return find

    return register


def of_nodes(name: str, operators: Collection[str], statement: str, source: str) -> Callable[[Check], Check]:
    """Register what checks one node of some operators: it returns what violates the constraint, or None."""

    def register(check: Check) -> Check:
        @of_graph(name, statement, source, operators)
        def find(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
            for node in graph.nodes:
                found = check(graph, node) if node.operator in operators else None
                if found is not None:
                    yield Violation(node=node.label, found=found)

        return check

    return register


def attribute_in(
    name: str, operators: Collection[str], attribute: str, allowed: Collection[Any], source: str, default: Any = None
) -> None:
    """An attribute has one of some values; ``default`` stands for an attribute that is left out."""
    words = " or ".join(map(str, allowed))

    @of_nodes(name, operators, f"{_join_names(operators)}: {attribute} is {words}", source)
    def check(graph: Graph, node: Node) -> str | None:
        value = node.attribute(attribute, default)
        return None if value is None or value in allowed else f"{attribute} = {value}"


def all_ones(name: str, operators: Collection[str], attribute: str, source: str) -> None:
    """A list attribute is left out, or every entry is 1."""

    @of_nodes(name, operators, f"{_join_names(operators)}: {attribute} is left out or 1", source)
    def check(graph: Graph, node: Node) -> str | None:
        values = list(node.attribute(attribute, ()))
        return None if set(values) <= {1} else f"{attribute} = {values}"


def without_inputs(name: str, operators: Collection[str], inputs: dict[int, str], source: str) -> None:
    """Some optional inputs are left out."""

    @of_nodes(name, operators, f"{_join_names(operators)}: no {' or '.join(inputs.values())}", source)
    def check(graph: Graph, node: Node) -> str | None:
        given = [f"{word} = {node.input(index)}" for index, word in inputs.items() if node.input(index)]
        return ", ".join(given) or None


def without_outputs(name: str, operators: Collection[str], first: int, source: str) -> None:
    """Every output from the index ``first`` on is left out."""
    plural = "output" if first == 1 else "outputs"

    @of_nodes(name, operators, f"{_join_names(operators)}: {first} {plural} and no more", source)
    def check(graph: Graph, node: Node) -> str | None:
        extra = [output for output in node.proto.output[first:] if output]
        return f"further outputs {extra}" if extra else None


def ranks(name: str, operators: Collection[str], inputs: dict[int, str], allowed: Collection[int], source: str) -> None:
    """Some inputs, where they are given, have one of some ranks."""
    words = " or ".join(f"{rank}-D" for rank in allowed)

    @of_nodes(name, operators, f"{_join_names(operators)}: {', '.join(inputs.values())} {words}", source)
    def check(graph: Graph, node: Node) -> str | None:
        for index, word in inputs.items():
            axes = graph.axes(node.input(index))
            if node.input(index) and (axes is None or len(axes) not in allowed):
                return f"{word} {shape_text(axes)}"
        return None


def constant_input(name: str, operators: Collection[str], index: int, word: str, source: str) -> None:
    """An input, where it is given, is known when the engine is built."""

    @of_nodes(name, operators, f"{_join_names(operators)}: {word} is a constant", source)
    def check(graph: Graph, node: Node) -> str | None:
        tensor = node.input(index)
        return None if not tensor or graph.is_constant(tensor) else f"{word} = {tensor}, computed by the graph"


def shape_text(axes: Iterable[Any] | None) -> str:
    """Axes as messages write them, for instance ``[batch, 4, ?, 8]``."""
    return "of unknown rank" if axes is None else "[" + ", ".join("?" if a is None else str(a) for a in axes) + "]"


def _join_names(operators: Collection[str]) -> str:
    return ", ".join(sorted(operators)) if len(operators) <= 3 else f"{min(operators)} and {len(operators) - 1} more"
