"""Import models of full width with random weights: seconds, peak memory and the difference from transformers.

    python benchmarks/import_full_width.py [--scratch DIR] [NAME ...]

Each row is one folder that transformers wrote, in files of 200 MB, and that processes of their own import. ``float32``
is what the model takes in memory once it is loaded. ``import`` is the peak of a process without transformers, above
what it held before, so it is the importer's own; ``and compare`` is that of one in which transformers' model runs, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


LLAMA_WIDTH = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
QWEN3_WIDTH = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 3072,
    "head_dim": 128,
    "tie_word_embeddings": True,
}


def _encoder_decoder(width: int, layers: int, heads: int, mlp_width: int, **others: Any) -> dict[str, Any]:
    sides = {
        f"{side}_{what}": size
        for side in ("encoder", "decoder")
        for what, size in (("layers", layers), ("attention_heads", heads), ("ffn_dim", mlp_width))
    }
    return {"d_model": width, **sides, **others}


MARIAN = _encoder_decoder(
    512, 6, 8, 2048, max_position_embeddings=512, activation_function="swish", scale_embedding=True
)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {  # transformers' class, and its settings where not the default
    "gpt2 small": ("GPT2LMHeadModel", {}),
    "llama 3.2 1b, 4 layers": ("LlamaForCausalLM", LLAMA_WIDTH),
    "the same in bfloat16": ("LlamaForCausalLM", {**LLAMA_WIDTH, "dtype": "bfloat16"}),
    "qwen3 0.6b, 4 layers": ("Qwen3ForCausalLM", QWEN3_WIDTH),
    "opus-mt": ("MarianMTModel", MARIAN),
    "bart base": ("BartForConditionalGeneration", _encoder_decoder(768, 6, 12, 3072)),
    "t5 small": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "bert base": ("BertModel", {}),
}


def main() -> None:
    """Make, import and measure every model that was asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help=f"of {list(MODELS)}; all if none is given")
    parser.add_argument("--scratch", type=Path, help="where folders of up to 1.2 GB are made; /tmp if not given")
    asked = parser.parse_args()
    rows = []
    for number, name in enumerate(asked.names or MODELS, start=1):
        sys.stderr.write(f"{number}/{len(asked.names or MODELS)} {name} …\n")
        with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
            rows.append(_measured(name, Path(scratch)))
    _print(rows)


def _measured(name: str, scratch: Path) -> dict[str, str]:
    parameters = _child("make", name, scratch)["parameters"]
    alone, compared = _child("import", name, scratch), _child("compare", name, scratch)
    return {
        "model": name,
        "parameters": f"{parameters:,}",
        "float32": f"{parameters * 4 / 2**20:.0f} MB",
        "import": f"{alone['peak']:.0f} MB, {alone['seconds']:.1f} s",
        "and compare": f"{compared['peak']:.0f} MB, {compared['seconds']:.1f} s",
        "difference": f"{compared['difference']:.1e}",
    }


def _child(step: str, name: str, scratch: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--step", step, name, str(scratch)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return value


def _step(step: str, name: str, scratch: Path) -> dict[str, Any]:
    if step == "make":
        return _make(name, scratch)
    if step == "import":
        sys.modules["transformers"] = None  # type: ignore[assignment]  # as if it were not installed
    else:
        _warm()
    from models.checkpoints.importers.importing import import_checkpoint

    before, began = _resident("VmRSS"), time.perf_counter()
    difference = import_checkpoint(scratch / "theirs", scratch / "ours").difference
    seconds = time.perf_counter() - began
    return {"peak": _resident("VmHWM") - before, "seconds": seconds, "difference": difference}


def _warm() -> None:
    import torch
    import transformers

    ids = torch.zeros(1, 1, dtype=torch.int64)
    tiny = transformers.GPT2Config(vocab_size=2, n_embd=2, n_layer=1, n_head=1)
    transformers.GPT2LMHeadModel(tiny)(ids)


def _resident(kind: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(kind))


def _make(name: str, scratch: Path) -> dict[str, Any]:
    import torch
    import transformers
    from tokenizers import Tokenizer, models

    torch.manual_seed(0)
    kind, settings = getattr(transformers, MODELS[name][0]), MODELS[name][1]
    config = kind.config_class(**settings)
    theirs = kind(config).to(config.dtype or torch.float32)
    theirs.save_pretrained(scratch / "theirs", max_shard_size="200MB")
    words = ["<unk>", "The", "house", "is", "small"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.save(str(scratch / "theirs" / "tokenizer.json"))
    return {"parameters": sum(parameter.numel() for parameter in theirs.parameters())}


def _print(rows: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in rows[0]:
        table.add_column(title)
    for row in rows:
        table.add_row(*row.values())
    Console(width=140).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        sys.stdout.write(json.dumps(_step(sys.argv[2], sys.argv[3], Path(sys.argv[4]))) + "\n")
    else:
        main()
