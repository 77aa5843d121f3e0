import dataclasses
import math

import pytest

from attendant.errors import ConfigError, ParityError
from export.precision.precisions import PRECISIONS
from export.quality.agreement import Agreement, StepDrift
from export.quality.budgets import BUDGETS, budget_of, require_budget, verdicts_of
from export.quality.quality import Quality, Right

BUDGET = BUDGETS["int4"]


def quality(*, drift=0.0, kl=0.0, top1=1.0, share=0.9, real=True):
    step = StepDrift(largest=drift, mean=drift, spread=1.0)
    logits = Agreement(tokens=1, steps=(step,), cosine=1.0, kl_mean=kl, kl_largest=kl, top1=top1)
    accuracy = Right(metric="exact dates", share=share, reference=0.9, total=100) if real else None
    return Quality(form="served", questions="dates", real=real, agreements={"logits": logits}, accuracy=accuracy)


def beyond(one):
    return [verdict.limit for verdict in verdicts_of([one], BUDGET) if not verdict.passed]


def test_every_precision_has_a_budget_with_a_reason_and_a_remedy():
    assert PRECISIONS.keys() <= BUDGETS.keys()
    assert all(budget.why.endswith(".") and budget.remedy for budget in BUDGETS.values())


def test_a_precision_of_fewer_bits_may_cost_more():
    order = ("fp32", "fp16", "int8", "int8-static", "int4")
    for name in ("drift", "kl", "loss"):
        limits = [getattr(BUDGETS[precision], name) for precision in order]
        assert limits == sorted(limits)
        assert len(set(limits)) == len(limits)
    assert [BUDGETS[one].top1 for one in order] == sorted((BUDGETS[one].top1 for one in order), reverse=True)


@pytest.mark.parametrize(
    ("field", "limit", "name"),
    [
        ("drift", BUDGET.drift, "drift of logits"),
        ("kl", BUDGET.kl, "KL of logits"),
        ("top1", BUDGET.top1, "top-1 agreement of logits"),
        ("share", 0.9 - BUDGET.loss / 100, "loss of exact dates in points"),
    ],
)
def test_each_limit_holds_at_its_value_and_breaks_beyond_it(field, limit, name):
    worse = -1e-6 if field in ("top1", "share") else 1e-6
    assert beyond(quality(**{field: limit - 1e-9 * worse})) == []
    assert beyond(quality(**{field: limit + worse})) == [name]


def test_what_is_not_finite_is_beyond():
    assert beyond(quality(drift=math.nan, kl=math.inf)) == ["drift of logits", "KL of logits"]


def test_of_random_inputs_the_drift_alone_is_held():
    assert beyond(quality(drift=0.0, kl=9.0, top1=0.0, real=False)) == []
    assert beyond(quality(drift=9.0, kl=9.0, top1=0.0, real=False)) == ["drift of logits"]


def test_the_error_names_the_budget_what_was_found_and_what_to_do(tmp_path):
    verdicts = verdicts_of([quality(top1=0.6)], BUDGET)
    message = r"top-1 agreement of logits of the served graph at least 0\.75, the budget of int4; found 0\.6; .*int8"
    with pytest.raises(ParityError, match=message):
        require_budget(verdicts, "int4", tmp_path)
    require_budget(verdicts_of([quality()], BUDGET), "int4", tmp_path)


def test_more_right_answers_than_the_reference_are_no_loss():
    assert quality(share=0.95).accuracy.loss < 0
    assert beyond(quality(share=0.95)) == []


@pytest.mark.parametrize("field", ["drift", "kl", "loss", "top1"])
def test_a_budget_out_of_range_is_rejected(field):
    with pytest.raises(ConfigError, match=r"correct export/precision/precisions\.py"):
        dataclasses.replace(BUDGET, **{field: 0.0})


def test_a_precision_without_a_budget_is_refused():
    with pytest.raises(ConfigError, match="found 'fp7'"):
        budget_of("fp7")
