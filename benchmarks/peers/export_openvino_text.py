"""transformers' folder → OpenVINO's stateful graphs: export_openvino_text.py KIND SOURCE OUT [int8|int4]."""

from __future__ import annotations

import sys

from optimum.intel import OVModelForCausalLM, OVModelForSeq2SeqLM, OVWeightQuantizationConfig

QUANTISATIONS = {
    "int8": OVWeightQuantizationConfig(bits=8, sym=False),
    "int4": OVWeightQuantizationConfig(bits=4, sym=True, group_size=128, ratio=1.0),
}


def main() -> None:
    """Export, with weights quantised if asked, and save."""
    kind, source, out, *precision = sys.argv[1:]
    options = {"quantization_config": QUANTISATIONS[precision[0]]} if precision else {"load_in_8bit": False}
    model = OVModelForCausalLM if kind == "decoder" else OVModelForSeq2SeqLM
    model.from_pretrained(source, export=True, compile=False, use_cache=True, **options).save_pretrained(out)


if __name__ == "__main__":
    main()
