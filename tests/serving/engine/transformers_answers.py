"""What transformers' ``generate`` answers when it is asked as our options ask."""

import torch
from transformers import LogitsProcessor


class CountPenalty(LogitsProcessor):
    """OpenAI's two penalties, which transformers does not have."""

    def __init__(self, presence, frequency, prompt_length):
        self._presence, self._frequency, self._begin = presence, frequency, prompt_length

    def __call__(self, input_ids, scores):
        counts = torch.zeros_like(scores)
        answer = input_ids[:, self._begin :]
        counts.scatter_add_(1, answer, torch.ones(answer.shape))
        return scores - self._presence * (counts > 0) - self._frequency * counts


def their_answers(model, subject, prompt_length, options, rules):
    """Each answer's tokens without the end token, why it ended, and its score.

    Args:
        model: of transformers.
        subject: what it reads: inputs by name.
        prompt_length: how many tokens of what it returns are no answer.
        options: ours.
        rules: the end tokens, and what else the model's own configuration does not say.
    """
    end = sorted(rules.end | set(options.stop_token_ids))
    asked = {
        "forced_bos_token_id": rules.first,
        "suppress_tokens": list(rules.never) or None,
        "sequence_bias": {(token,): float(bias) for token, bias in options.logit_bias.items()} or None,
        **_beams(options),
    }
    result = model.generate(
        **subject,
        do_sample=False,
        max_new_tokens=options.max_tokens,
        min_new_tokens=options.min_tokens,
        repetition_penalty=options.repetition_penalty,
        logits_processor=[CountPenalty(options.presence_penalty, options.frequency_penalty, prompt_length)],
        eos_token_id=end or None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **{name: value for name, value in asked.items() if value is not None},
    )
    scores = result.sequences_scores.tolist() if options.beam_width > 1 else [None]
    answers = [_until(sequence[prompt_length:], end) for sequence in result.sequences.tolist()]
    return [(*answer, score) for answer, score in zip(answers, scores, strict=True)]


def _beams(options):
    if options.beam_width == 1:
        return {"num_beams": 1}
    return {
        "num_beams": options.beam_width,
        "num_return_sequences": options.n,
        "length_penalty": options.length_penalty,
        "early_stopping": {"no": False, "yes": True, "never": "never"}[options.early_stopping],
    }


def _until(answer, end):
    stops = [place for place, token in enumerate(answer) if token in end]
    return (tuple(answer[: stops[0]]), "stop") if stops else (tuple(answer), "length")
