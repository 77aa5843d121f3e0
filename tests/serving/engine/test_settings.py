import pytest

from attendant.errors import ConfigError
from serving.engine.settings import EngineSettings


@pytest.mark.parametrize(
    ("name", "least"),
    [("max_num_seqs", 1), ("max_queue_size", 0), ("max_prefill_tokens", 1), ("prefix_cache_bytes", 0)],
)
def test_the_least_of_each_bound_is_taken_and_less_is_refused_by_name(name, least):
    assert getattr(EngineSettings(**{name: least}), name) == least
    with pytest.raises(ConfigError, match=f"{name} from {least} to \\d+; found {least - 1}; correct {name}"):
        EngineSettings(**{name: least - 1})
