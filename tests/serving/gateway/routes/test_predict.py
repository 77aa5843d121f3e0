"""``/v1/predict`` before a server of any contract: what is refused before it is unpacked, converted or asked for."""

import asyncio
import io
import tracemalloc
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.tensor_files import NPY, NPZ
from serving.gateway.large_answers import MOST_VALUES
from serving.gateway.routes.predict import _best
from tests.serving.gateway.fake_triton import FakeTriton, config_of, floats, gateway_of, raw

MIB = 1 << 20


class Server(FakeTriton):
    """Attributes: shapes of what it was asked; most requests that were under way at once; how long each takes."""

    def __init__(self, inputs, outputs=(("y", [-1]),), answer=None, kind=pb.TYPE_FP32):
        config = config_of("m", "predict", inputs, outputs, max_batch=8)
        config.input[0].data_type = kind
        super().__init__(config, answer=answer or {"y": floats([[1, 2]])})
        self.shapes, self.under_way, self.most, self.takes_s = [], 0, 0, 0.1

    async def infer(self, request):
        self.shapes.append([tuple(tensor.shape) for tensor in request.inputs])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self.takes_s)
        self.under_way -= 1
        return self.answer


def packed(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def ask(server, *bodies, bound=None, **choices):
    async def answers():
        async with gateway_of(server, **choices) as client:
            await client.get("/v1/models")
            server.shapes.clear()  # of the canary
            server.most = 0
            with bound or nullcontext():
                return await asyncio.gather(*(client.post("/v1/predict", **body) for body in bodies))

    return asyncio.run(answers())


def of_file(content, kind=NPZ, accept="application/json"):
    return {"params": {"model": "m"}, "content": content, "headers": {"Content-Type": kind, "Accept": accept}}


class PeakBelow:
    def __init__(self, most):
        self.most = most

    def __enter__(self):
        tracemalloc.start()

    def __exit__(self, *error):
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < self.most, peak


def test_a_small_file_of_a_large_array_is_refused_by_the_models_contract_and_not_unpacked():
    server = Server([("x", [10])], kind=pb.TYPE_FP64)
    bomb = packed(x=np.zeros((1, 16 * MIB), np.uint8))
    (found,) = ask(server, of_file(bomb), bound=PeakBelow(MIB))
    assert found.status_code == 400 and "an array of [batch <= 8, 10] for 'x'" in found.json()["error"]["message"]
    assert not server.shapes


def test_one_that_the_model_takes_is_refused_where_it_is_too_much_in_the_models_type():
    server = Server([("x", [-1])], kind=pb.TYPE_FP64)
    bomb = packed(x=np.zeros((1, 16 * MIB), np.uint8))
    (found,) = ask(server, of_file(bomb), bound=PeakBelow(MIB))
    assert found.status_code == 413 and not server.shapes
    assert f"found {16 * MIB * 9}; send fewer rows" in found.json()["error"]["message"]


def test_an_archive_that_says_less_than_it_unpacks_to_is_refused():
    whole = bytearray(packed(x=np.zeros((1, 16 * MIB), np.uint8)))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        size = archive.infolist()[0].file_size
    (found,) = ask(Server([("x", [-1])]), of_file(bytes(whole).replace(size.to_bytes(4, "little"), b"\x90\0\0\0")))
    assert found.status_code == 400, found.text


def test_large_tensors_are_under_way_within_a_budget_and_small_ones_beside_them():
    server = Server([("x", [-1])], [("y", [2])])
    large, small = of_file(packed(x=np.zeros((1, 100_000), np.uint8))), of_file(saved(np.zeros((1, 2))), NPY)
    found = ask(server, *[large] * 4, tensor_bytes=600_000)
    assert {one.status_code for one in found} == {200} and server.most == 1
    server.takes_s = 1.0  # so that all are sent meanwhile
    found = ask(server, large, large, small, small, tensor_bytes=600_000)
    assert {one.status_code for one in found} == {200} and server.most == 3


def test_a_model_that_does_not_answer_holds_no_other_up():
    silent, other = Server([("x", [2])]), Server([("x", [-1])])
    silent.takes_s = 30.0
    other.configs["other"] = other.configs.pop("m")
    other.configs["other"].name = "other"
    small = {"json": {"model": "m", "inputs": {"x": [[1, 2]]}}, "headers": {"Accept": NPY}}
    large = {**of_file(packed(x=np.zeros((1, 100_000), np.uint8)))}
    large["params"] = {"model": "other"}

    async def answered():
        async with gateway_of(silent, other, tensor_bytes=600_000) as client:
            await client.get("/v1/models")
            held = [asyncio.ensure_future(client.post("/v1/predict", **small)) for _ in range(20)]
            await asyncio.sleep(0.2)
            async with asyncio.timeout(10.0):
                found = await client.post("/v1/predict", **large)
            for one in held:
                one.cancel()
            await asyncio.wait(held)
        return found

    found = asyncio.run(answered())
    assert found.status_code == 200, found.text


@pytest.mark.parametrize("sizes", [[100_000], [-1]], ids=["fixed", "varying"])
def test_large_outputs_are_under_way_within_the_budget_too(sizes):
    server = Server([("x", [2])], [("y", sizes)], {"y": floats(np.zeros((1, 100_000)))})
    body = {"json": {"model": "m", "inputs": {"x": [[1, 2]]}}, "headers": {"Accept": NPY}}

    async def most():
        async with gateway_of(server, tensor_bytes=600_000) as client:
            await client.post("/v1/predict", **body)
            while server.under_way:  # the canary
                await asyncio.sleep(0.01)
            server.most = 0
            await asyncio.gather(*(client.post("/v1/predict", **body) for _ in range(4)))
        return server.most

    assert asyncio.run(most()) == 1


def test_the_tensors_of_a_client_that_left_are_counted_until_the_server_has_answered():
    server, large = Server([("x", [-1])]), of_file(packed(x=np.zeros((1, 100_000), np.uint8)))

    async def leave():
        async with gateway_of(server, tensor_bytes=600_000) as client:
            await client.get("/v1/models")
            left = [asyncio.ensure_future(client.post("/v1/predict", **large)) for _ in range(3)]
            while not server.under_way:
                await asyncio.sleep(0.01)
            server.most = 0
            for one in left:
                one.cancel()
            await asyncio.wait(left)
            assert server.under_way == 1
            assert (await client.post("/v1/predict", **large)).status_code == 200
            assert server.most == 1

    asyncio.run(leave())


def test_a_batch_of_tens_of_megabytes_is_answered():
    server = Server([("x", [3, -1, -1])])
    batch = np.zeros((6, 3, 1000, 1000), np.uint8)
    (found,) = ask(server, of_file(saved(batch), NPY))
    assert found.json()["outputs"] == {"y": [[1, 2]]} and server.shapes == [[batch.shape]]


def test_an_image_of_an_ordinary_size_is_taken_as_json():
    server, image = Server([("x", [3, 224, 224])]), np.zeros((1, 3, 224, 224)).tolist()
    (found,) = ask(server, {"json": {"model": "m", "inputs": {"x": image}}})
    assert found.json()["outputs"] == {"y": [[1, 2]]} and server.shapes == [[(1, 3, 224, 224)]]


@pytest.mark.parametrize("rows", [[["a"] * 400 + ["b" * 1_000_000]], [[1], [1, 2]], [[None]], [[{}]], "a"])
def test_json_of_what_is_no_rows_of_numbers_is_the_clients_mistake(rows):
    server = Server([("x", [-1])])
    (found,) = ask(server, {"json": {"model": "m", "inputs": {"x": rows}}}, bound=PeakBelow(16 * MIB))
    assert found.status_code == 400 and "rows of numbers of equal lengths for 'x'" in found.text and not server.shapes


@pytest.mark.parametrize(("sizes", "asked"), [([MOST_VALUES + 1], 0), ([-1], 1)])
def test_outputs_of_too_many_values_for_json_are_refused_and_come_as_a_file(sizes, asked):
    values = np.zeros((1, MOST_VALUES + 1), np.float32)
    server = Server([("x", [2])], [("y", sizes)], {"y": floats(values)})
    body = {"json": {"model": "m", "inputs": {"x": [[1, 2]]}}}
    (found,) = ask(server, body)
    assert found.status_code == 400 and len(server.shapes) == asked
    assert "Accept: application/x-npz" in found.json()["error"]["message"]
    for kind in (NPY, NPZ):
        (found,) = ask(server, {**body, "headers": {"Accept": kind}})
        read = np.load(io.BytesIO(found.content))
        np.testing.assert_array_equal(read if kind == NPY else read["y"], values)


def test_outputs_of_texts_come_as_json_alone():
    server = Server([("x", [2])], answer={"y": raw([[b"\xff", b"a"]])})
    body = {"json": {"model": "m", "inputs": {"x": [[1, 2]]}}}
    as_json, as_file = ask(server, body, {**body, "headers": {"Accept": NPY}})
    assert as_json.json()["outputs"] == {"y": [["\ufffd", "a"]]}
    assert as_file.status_code == 400 and "accept application/json" in as_file.text


def test_a_number_in_the_place_of_rows_is_the_clients_mistake():
    bodies = [{"json": {"model": "m", "inputs": {"x": 5}}}, of_file(saved(np.array(5.0)), NPY), of_file(packed(x=5))]
    for found in ask(Server([("x", [-1])]), *bodies):
        assert found.status_code == 400 and "for 'x'; found []" in found.json()["error"]["message"]


def test_a_damaged_file_is_the_clients_mistake():
    bodies = [of_file(data, kind) for data in (b"", b"x", saved(np.zeros(2))[:-1]) for kind in (NPY, NPZ)]
    assert {found.status_code for found in ask(Server([("x", [2])]), *bodies)} == {400}


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[0.5, np.nan], [np.inf, 0.0], [np.nan, np.nan], [0.1, 0.2]], [None, "a", None, "b"]),
        (np.array([[3, 4]], np.int32), ["b"]),
    ],
)
def test_a_row_with_what_is_no_number_has_no_label(rows, labels):
    assert _best(np.asarray(rows), ["a", "b"]) == labels
