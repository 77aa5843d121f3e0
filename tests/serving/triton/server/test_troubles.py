import time
from math import inf

from serving.triton.server.troubles import AGAIN_S, MOST_S, Troubles


def test_a_model_is_away_for_twice_as_long_each_time_and_never_for_longer_than_the_bound():
    troubles = Troubles()
    assert troubles.due_s("big") == -inf
    pauses = []
    for _ in range(40):
        troubles.count("big")
        pauses.append(round(troubles.due_s("big") - time.monotonic()))
    assert pauses[:3] == [2 * AGAIN_S, 4 * AGAIN_S, 8 * AGAIN_S] and pauses[-1] == MOST_S
    assert troubles.due_s("another") == -inf
