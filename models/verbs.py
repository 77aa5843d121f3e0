"""The verbs on models: list them, look inside one, train the shipped ones again, import, explain."""

# Torch is imported by the verbs that need it, so that --help answers at once.

import json as json_format
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from attendant.records import record_to_json
from models.inventory import read_inventory

if TYPE_CHECKING:
    from models.checkpoints.store import Checkpoint

Name = tyro.conf.Positional[str]
Out = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Folder = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
NewFolder = Annotated[Path, tyro.conf.arg(metavar="DIR")]
Length = Annotated[int | None, tyro.conf.arg(metavar="N")]
Figure = Annotated[Path, tyro.conf.arg(metavar="FILE")]
NewName = Annotated[str | None, tyro.conf.arg(metavar="NAME")]


def list_(json: bool = False) -> int:
    """List the shipped checkpoints, the presets and the families.

    GMAC is 10⁹ multiply-adds of one request of ordinary size: one image, or 128 tokens (of source and of target).

    Args:
        json: print JSON instead of tables.
    """
    _show(read_inventory(), json, _print_inventory)
    return 0


def describe(name: Name, json: bool = False) -> int:
    """Show a model's configuration, its parameters by part, and its graphs.

    Args:
        name: a checkpoint folder, a shipped checkpoint or a preset.
        json: print JSON instead of tables.
    """
    from attendant.config import config_to_json
    from models.checkpoints.resolve import checkpoint_named
    from models.size import parts_of

    checkpoint = checkpoint_named(name)
    parts = parts_of(checkpoint.model)
    _show(
        {
            "name": checkpoint.name,
            "family": checkpoint.family.name,
            "task": checkpoint.family.task.name,
            "weights": _weights(checkpoint),
            "config": config_to_json(checkpoint.model.config),
            "parameters": parts.total(),
            "parts": dict(parts),
            "graphs": [record_to_json(graph.signature) for graph in checkpoint.graphs()],
            "details": checkpoint.details,
        },
        json,
        _print_description,
    )
    return 0


def _weights(checkpoint: "Checkpoint") -> str:
    if checkpoint.family.name == "own":
        return "the file's own"
    return "trained" if checkpoint.folder else "random"


def train(name: Name, out: Out = None, seed: int = 0) -> int:
    """Train a shipped checkpoint again, and write it with its model card.

    Args:
        name: a shipped checkpoint, see `list`.
        out: folder to write; build/trained/NAME without it. The shipped checkpoint stays as it is.
        seed: of every random number.
    """
    from attendant.progress import progress
    from models.train.command import train_checkpoint
    from models.train.registry import task_named

    task = task_named(name)
    folder = out or Path("build/trained") / task.name
    with progress(f"train {task.name}", task.steps) as advance:
        done = train_checkpoint(task, folder, seed, lambda step, steps, loss: advance(f"loss {loss:.4f}"))
    sys.stdout.write(f"{done.metric}: {done.score}\n{done.command}\n{done.seconds:.0f} seconds, in {folder}\n")
    return 0


def import_(folder: Folder, out: NewFolder, max_length: Length = None, name: NewName = None) -> int:
    """Turn a Hugging Face folder or a GGUF file into a checkpoint, and compare it with transformers if installed.

    docs/reference/features.md lists the architectures that are known, and the kinds of integers that weights may be:
    GPTQ, AWQ, compressed-tensors, GGUF. Only safetensors and GGUF are read, never pickle.

    Args:
        folder: with config.json, model.safetensors (or its parts and their index) and a tokenizer; or a .gguf file.
        out: folder to write.
        max_length: longest sequence, for which a cache is kept; without it the model's own, but at most 4096.
        name: of the checkpoint; without it the folder's.
    """
    from models.checkpoints.importers.importing import import_checkpoint

    done = import_checkpoint(folder, out, name, max_length)
    sys.stdout.write(f"{done.name}: {done.architecture} as {done.family}, {done.parameters:,} parameters, in {out}\n")
    sys.stdout.writelines(f"{note}\n" for note in done.notes)
    if done.difference is not None:
        sys.stdout.write(f"largest difference from transformers {done.difference:.1e}, relative to the outputs\n")
    return 0


def explain(
    name: Name,
    subject: tyro.conf.Positional[tuple[str, ...]],
    out: Figure = Path("explained.png"),
    fusion: Literal["mean", "min", "max"] = "mean",
    discard: float = 0.0,
    label: str | None = None,
) -> int:
    """Draw what a model attends to, over an image or a text; or how its positions lie.

    A classifier: the rollout of its layers, each head of the last layer, and the evidence for a label, over the image;
    one with windows: how much attention each place of a layer gets. A captioner: where it looks while it chooses each
    word. A translator: which characters or tokens of the source it looks at while it writes each of its own. A language
    model: which tokens before it each token looks at that it adds to a text. Without an image or a text: how alike a
    vision model's learned positions are.

    Args:
        name: a checkpoint folder or a shipped checkpoint.
        subject: an image file, or the words of a text.
        out: the PNG, PDF or SVG to write.
        fusion: how a rollout joins the heads of a layer.
        discard: share of each layer's weights, the smallest ones, that a rollout leaves out.
        label: whose evidence is drawn; the most probable label if not given.
    """
    from models.checkpoints.resolve import checkpoint_named
    from models.explanation import ExplainOptions, explain_positions
    from models.explanation import explain as explained

    checkpoint, words = checkpoint_named(name), " ".join(subject)
    options = ExplainOptions(subject=words, out=out, fusion=fusion, discard=discard, label=label)
    answer = explained(checkpoint, options) if words else explain_positions(checkpoint, out)
    sys.stdout.write(f"{out}: {answer}\n")
    return 0


def _show(value: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    if as_json:
        sys.stdout.write(json_format.dumps(value, indent=2) + "\n")
    else:
        show(value)


def _print_inventory(inventory: dict[str, list[dict[str, Any]]]) -> None:
    for title, rows in inventory.items():
        _print_table(title, rows)


def _print_description(value: dict[str, Any]) -> None:
    sys.stdout.write(f"{value['name']}: {value['family']}, {value['task']}, {value['weights']} weights\n")
    _print_table("configuration", [{"field": name, "value": str(item)} for name, item in value["config"].items()])
    parts = {**value["parts"], "all": value["parameters"]}
    _print_table("parameters", [{"part": name, "parameters": count} for name, count in parts.items()])
    for graph in value["graphs"]:
        _print_table(f"graph {graph['name']}", [*_tensors(graph, "inputs"), *_tensors(graph, "outputs")])


def _tensors(graph: dict[str, Any], side: str) -> list[dict[str, Any]]:
    return [
        {"": side[:-1], "tensor": one["name"], "type": one["dtype"], "axes": ", ".join(map(str, one["axes"]))}
        for one in graph[side]
    ]


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, 120)  # a name cut in two cannot be copied
    table = Table(title=title, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(name, justify="right" if name in ("parameters", "GMAC") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int | float) else str(cell) for cell in row.values()))
    console.print(table)
