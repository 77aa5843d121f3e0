"""Where the torch runner is tried, and a stand-in for CUDA graphs that shows what would go wrong with them."""

import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.needs_gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")],
    ),
]


class ReplayedOnCpu:
    """A recorder as CUDA's: warms up, does nothing while it records, and overwrites what the last replay returned."""

    def __init__(self):
        self.recorded = 0

    def __call__(self, warm_up, work):
        self.recorded += 1
        warm_up(), warm_up()
        kept = []

        def replay():
            outputs = work()
            if not kept:
                kept.extend(outputs)
            for old, new in zip(kept, outputs, strict=True):
                old.copy_(new)
            return kept

        return replay
