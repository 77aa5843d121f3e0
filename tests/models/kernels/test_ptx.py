import pytest

from attendant.errors import ExportError
from models.kernels.ptx import parameters, version, without_last_parameters

PTX = """.version 8.7
.target sm_90a
.visible .entry add(
	.param .u64 .ptr .global .align 1 add_param_0,
	.param .u32 add_param_1,
	.param .u64 .ptr .global .align 1 add_param_2
)
.reqntid 128
{
	ld.param.b64 	%rd1, [add_param_0];
	ret;
}
"""


def test_the_parameters_of_an_entry_are_read_in_order():
    assert [declared.split()[-1] for declared in parameters(PTX)] == ["add_param_0", "add_param_1", "add_param_2"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_last_parameters_are_taken_and_nothing_else_changes(count):
    text = without_last_parameters(PTX, count)
    assert parameters(text) == parameters(PTX)[: 3 - count]
    assert text.split(")", 1)[1] == PTX.split(")", 1)[1]


def test_a_parameter_that_the_kernel_reads_stays():
    with pytest.raises(ExportError, match="it reads add_param_0"):
        without_last_parameters(PTX, 3)


@pytest.mark.parametrize("text", ["", PTX + PTX], ids=["none", "two"])
def test_text_without_exactly_one_entry_is_refused(text):
    with pytest.raises(ExportError, match=r"one \.visible \.entry"):
        parameters(text)


def test_the_version_is_read():
    assert version(PTX) == 87
    with pytest.raises(ExportError, match=r"\.version"):
        version("")
