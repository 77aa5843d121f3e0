import pytest

from serving.backoff import FORGOTTEN_S, LONGEST_S, WELL_S, Backoff


def test_a_first_failure_is_tried_again_at_once_and_later_ones_after_ever_longer_pauses_without_an_end():
    now_s = [0.0]
    backoff = Backoff(clock=lambda: now_s[0])
    pauses = []
    for _ in range(40):
        pauses.append(backoff.pause_after_failure())
        now_s[0] += pauses[-1]
    assert pauses[:4] == [0.0, 0.5, 1.0, 2.0] and set(pauses[8:]) == {LONGEST_S}


def test_a_failure_is_forgotten_after_a_while_without_another():
    now_s = [0.0]
    backoff = Backoff(clock=lambda: now_s[0])
    backoff.pause_after_failure()
    assert backoff.pause_after_failure() > 0
    now_s[0] += 2 * FORGOTTEN_S
    assert backoff.pause_after_failure() == 0.0


@pytest.mark.parametrize(("lived_s", "is_first"), [(WELL_S - 1, False), (WELL_S + 1, True)])
def test_what_lived_for_a_while_begins_anew(lived_s, is_first):
    now_s = [0.0]
    backoff = Backoff(clock=lambda: now_s[0])
    for _ in range(5):
        now_s[0] += backoff.pause_after_failure()
    backoff.note_success()
    now_s[0] += lived_s
    assert (backoff.pause_after_failure() == 0.0) is is_first
    now_s[0] += WELL_S + 1
    assert backoff.pause_after_failure() > 0.0, "it has not been well since"
