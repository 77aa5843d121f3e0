import pytest

from attendant.manifest import Manifest
from serving.engine.cache_plan import CachePlan
from serving.engine.kv_cache import KVCache
from serving.runtime.create_runners import create_runners


@pytest.mark.parametrize("artefact", ["language_model", "dates_artefact", "captioner_artefact", "gru_artefact"])
def test_the_plan_of_a_manifest_is_what_is_then_allocated(artefact, request):
    folder = request.getfixturevalue(artefact)
    manifest = Manifest.read(folder)
    slots = KVCache(create_runners(folder, manifest)["decoder"], 3)
    plan = CachePlan.of(manifest.graph("decoder"), 3)
    assert (plan.nbytes, plan.slots) == (slots.nbytes, 3)
    assert plan.tokens == (None if slots.capacity is None else 3 * slots.capacity)
