import pytest
import triton


@pytest.fixture(scope="session", autouse=True)
def _compiled_afresh(tmp_path_factory):
    """What Triton has compiled before is not taken for what it compiles now."""
    before = triton.knobs.cache.dir
    triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
    yield
    triton.knobs.cache.dir = before
