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
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def _gpt2() -> Any:
    import transformers

    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def _llama() -> Any:
    import transformers

    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        num_hidden_layers=4,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        head_dim=64,
        max_position_embeddings=131072,
        rope_parameters=rope,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config)


def _llama_bfloat16() -> Any:
    import torch

    return _llama().to(torch.bfloat16)


def _qwen3() -> Any:
    import transformers

    config = transformers.Qwen3Config(
        hidden_size=1024,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=8,
        intermediate_size=3072,
        head_dim=128,
        tie_word_embeddings=True,
    )
    return transformers.Qwen3ForCausalLM(config)


def _marian() -> Any:
    import transformers

    config = transformers.MarianConfig(
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
    )
    return transformers.MarianMTModel(config)


def _bart() -> Any:
    import transformers

    config = transformers.BartConfig(
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    )
    return transformers.BartForConditionalGeneration(config)


def _t5() -> Any:
    import transformers

    return transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0))


def _bert() -> Any:
    import transformers

    return transformers.BertModel(transformers.BertConfig())


MODELS: dict[str, Callable[[], Any]] = {
    "gpt2 small": _gpt2,
    "llama 3.2 1b, 4 layers": _llama,
    "the same in bfloat16": _llama_bfloat16,
    "qwen3 0.6b, 4 layers": _qwen3,
    "opus-mt": _marian,
    "bart base": _bart,
    "t5 small": _t5,
    "bert base": _bert,
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
    from models.checkpoints.foreign.importing import import_checkpoint

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
    from tokenizers import Tokenizer, models

    torch.manual_seed(0)
    theirs = MODELS[name]()
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
