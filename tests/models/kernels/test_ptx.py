import pytest

from attendant.errors import ExportError
from models.kernels.ptx import count_async_copies, count_instructions, parameters, version, without_last_parameters

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


def test_copies_that_load_ahead_are_counted_and_waiting_for_them_is_not():
    copies = (
        "cp.async.cg.shared.global",
        "cp.async.ca.shared.global",
        "cp.async.bulk.tensor.2d.shared::cluster.global",
    )
    others = ("cp.async.commit_group;", "cp.async.wait_group 1;", "cp.async.bulk.wait_group 0;", "ld.global.b32")
    assert count_async_copies("\n".join((*copies, *others))) == 3
    assert count_async_copies(PTX) == 0


def test_what_tma_stores_is_no_load_ahead():
    store = "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%rd1, {%r1, %r2, %r3}], [%r4];"
    load = "cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];"
    assert count_async_copies(f"{store}\n@%p1 {load}") == 1


def test_instructions_are_counted_by_their_whole_words():
    ptx = "@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.initial;\nx.mbarrier.init;\nmbarrier.init;"
    assert count_instructions(ptx, "mbarrier.init") == 2
