from __future__ import annotations

import pytest

from attendant.errors import MachineError
from serving.triton.server.numpy_version import check_numpy


@pytest.mark.parametrize("version", ["2.0.0", "2.3.1", "3.0.0rc1", "10.0"])
def test_a_numpy_that_would_empty_the_outputs_is_refused_with_the_remedy(version: str):
    with pytest.raises(MachineError, match=f"numpy {version}.*pip install .numpy<2"):
        check_numpy(version)


@pytest.mark.parametrize("version", ["1.26.4", "1.9.0"])
def test_a_numpy_of_the_first_generation_is_accepted(version: str):
    check_numpy(version)
