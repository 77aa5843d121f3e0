"""lm-eval-harness before the gateway and a real Triton: its loglikelihoods are those of transformers."""

import importlib.util
import json

import numpy as np
import pytest
import torch

from tests.end_to_end.gateways import started
from tests.end_to_end.imported_models import KINDS
from tests.end_to_end.test_imported import export_onnx, imported, served
from tests.models.checkpoints.importers.saved import VOCABULARY

SAMPLES, LONGEST = 200, 20
NEEDS = "lm-eval-harness, which is not installed: pip install 'lm-eval[api]'"


def questions():
    random = np.random.default_rng(0)
    for _ in range(SAMPLES):
        lengths = random.integers(1, LONGEST, 2)
        yield tuple(random.integers(2, VOCABULARY, length).tolist() for length in lengths)


@torch.no_grad()
def their_loglikelihood(theirs, context, continuation):
    logprobs = theirs(torch.tensor([[*context, *continuation]])).logits[0].log_softmax(-1)[len(context) - 1 : -1]
    picked = logprobs.gather(1, torch.tensor(continuation)[:, None]).sum().item()
    return picked, logprobs.argmax(-1).tolist() == continuation


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason=NEEDS)
def test_its_loglikelihoods_are_those_of_transformers(tmp_path):
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    folder, ours = imported(tmp_path, "llama", wide=False)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"})
    )
    export_onnx(str(ours), tmp_path / "artefacts" / "llama")
    asked = [(("", ""), *one) for one in questions()]
    with served(tmp_path, ["llama"]) as server, started(server) as gateway:
        harness = LocalCompletionsAPI(
            model="llama", base_url=f"{gateway.url}/v1/completions", tokenizer=str(folder), max_length=47
        )
        found = harness._loglikelihood_tokens(asked, disable_tqdm=True)
    theirs = KINDS["llama"].model.from_pretrained(folder, dtype=torch.float32).eval()
    wanted = [their_loglikelihood(theirs, context, continuation) for _, context, continuation in asked]
    np.testing.assert_allclose([value for value, _ in found], [value for value, _ in wanted], rtol=0, atol=1e-4)
    assert [is_greedy for _, is_greedy in found] == [is_greedy for _, is_greedy in wanted]
