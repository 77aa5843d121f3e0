import pytest

from serving.runtime.ort.kernels import library
from tests.serving.runtime.ort.kernels import operators


@pytest.fixture(params=library.vectors())
def vectors(request, monkeypatch):
    """Each kind of vectors that this processor has."""
    monkeypatch.setattr(operators, "kernels", lambda: library.kernels(request.param))
    return request.param
