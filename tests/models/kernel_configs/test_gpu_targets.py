import pytest
import torch

from attendant.errors import UnknownNameError
from models.kernel_configs.gpu_targets import GPU_TARGETS, gpu_target, target_of


def test_targets_are_named_as_by_nvidia():
    known = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"]
    assert [gpu_target(name).name for name in GPU_TARGETS] == known


def test_an_unknown_target_is_refused_by_name():
    with pytest.raises(UnknownNameError, match=r"one of sm_80.*'sm_75'"):
        gpu_target("sm_75")


def test_a_cpu_interprets_what_the_smallest_gpu_would_run():
    assert target_of(torch.device("cpu")).shared_bytes == min(target.shared_bytes for target in GPU_TARGETS.values())
