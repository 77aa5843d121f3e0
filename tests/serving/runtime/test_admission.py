import pytest

from attendant.errors import InputError
from attendant.signature import Axis, GraphSignature, TensorSpec
from serving.runtime.base import Admission

IDS = TensorSpec(name="ids", dtype="int64", axes=("batch", "source"))
SIGNATURE = GraphSignature(name="encoder", inputs=(IDS,), outputs=(), axes={"source": Axis(opt=4, max=8)})


def test_what_is_out_of_bounds_is_refused_however_often_other_sizes_were_admitted():
    admission = Admission(SIGNATURE)
    for length in (8, 8, 9, 8, 9, 9):
        if length == 8:
            admission.require(IDS, "int64", (1, length))
        else:
            with pytest.raises(InputError, match="at most 8 along axis 'source' of 'ids'; found 9;"):
                admission.require(IDS, "int64", (1, length))


def test_another_type_is_refused_where_the_shape_was_admitted():
    admission = Admission(SIGNATURE)
    admission.require(IDS, "int64", (1, 8))
    with pytest.raises(InputError, match="int32"):
        admission.require(IDS, "int32", (1, 8))
