"""Property tests that give the same answer on every run and on every machine, however busy."""

from hypothesis import settings

settings.register_profile("same everywhere", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("same everywhere")
