"""Profiles to simulate with."""

from serving.capacity.profile import ReplicaProfile
from serving.capacity.table import TimeTable


def flat(seconds, most=64, capacity=1024):
    """A table whose runs all take as long."""
    return TimeTable(sizes=(1, most), lengths=(1, capacity), seconds=((seconds, seconds), (seconds, seconds)))


def profile(step_s=0.01, prompt_s=0.02, **parts):
    """A replica whose steps take as long whatever is in them."""
    made = {"name": "flat", "decode": flat(step_s), "prompt": flat(prompt_s, 256), "capacity": 1024, **parts}
    return ReplicaProfile(**made)
