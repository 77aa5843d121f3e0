"""``GET /v1/models`` where one server says odd things of its model."""

import asyncio

import grpc
import pytest
from fastapi.testclient import TestClient
from tritonclient.grpc import model_config_pb2 as pb

from clients.served_model import ServedModel
from serving.gateway.app import create_app
from serving.gateway.settings import GatewaySettings
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream
from tests.serving.gateway.fake_triton import FakeTriton, config_of, gateway_of

NUMBERS = ["x", "[1]", "null", "NaN", "Infinity", "1e400", "-1", "true"]


def model_of(name, parameters=None, task="generate", pixels=(), logits=False):
    config = pb.ModelConfig(name=name)
    for key, value in {"task": task, **(parameters or {})}.items():
        config.parameters[key].string_value = value
    if pixels:
        config.input.add(name="pixels", data_type=pb.TYPE_FP32).dims.extend(pixels)
    if logits:
        config.output.add(name="logits", data_type=pb.TYPE_FP32).dims.append(10)
    return ServedModel.from_config(name, config)


ODD = {
    "without logits": model_of("odd", task="classify", pixels=(1, 8, 8)),
    "with one side": model_of("odd", task="classify", pixels=(8,), logits=True),
    "with an example that is no JSON": model_of("odd", {"example": '{"inputs": {"text": 1e999}}'}),
    "with an example that is nested": model_of(
        "odd", {"example": '{"inputs": {"text": ' + "[" * 900 + "]" * 900 + "}}"}
    ),
    "with half a character": model_of("odd", {"example": '{"inputs": {"text": "\\ud800"}}'}),
}


@pytest.mark.planted
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_model_hides_no_other(odd, monkeypatch):
    served = {"good": model_of("good"), "odd": odd}

    async def models(pool):
        return served

    async def model(pool, name):
        return served[name]

    monkeypatch.setattr(Pool, "models", models)
    monkeypatch.setattr(Pool, "model", model)
    with TestClient(create_app(GatewaySettings(tritons=("127.0.0.1:1",))), base_url="http://127.0.0.1") as client:
        assert "good" in [one["id"] for one in client.get("/v1/models").json()["data"]]
        assert client.get("/v1/models/good").json()["id"] == "good"
        assert client.get("/v1/models/odd").status_code in (200, 502)


class Reloading(FakeTriton):
    """As tritonserver while it loads a model anew."""

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        if request.name == "away":
            message = "Request for unknown model: 'away' has no available versions"
            await context.abort(grpc.StatusCode.NOT_FOUND, message)
        return await super().ModelConfig(request, context)


@pytest.mark.planted
def test_a_model_that_is_loaded_anew_is_away_and_not_unknown():
    async def statuses():
        async with gateway_of(Reloading(config_of("good", "translate"))) as client:
            answers = []
            for name in ("away", "none"):
                answers.append(await client.get(f"/v1/models/{name}"))
                for route in ("explain", "translate"):
                    answers.append(await client.post(f"/v1/{route}", json={"model": name, "input": "a"}))
            return [answer.status_code for answer in answers]

    assert asyncio.run(statuses()) == [503, 503, 503, 404, 404, 404]


@pytest.mark.planted
@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("name", ["max_length", "max_source_length", "max_num_seqs", "max_queue_size", "image_size"])
def test_a_size_that_is_none_is_not_read(name, value):
    assert name not in model_of("odd", {name: value}).parameters


def test_a_size_is_read():
    assert model_of("good", {"max_length": "0", "image_size": "8"}).parameters["image_size"] == 8


@pytest.mark.planted
@pytest.mark.parametrize(
    ("name", "value"),
    [("preprocessing", "5"), ("control_tokens", "[1]"), ("special_tokens", "[1]"), ("example", '{"answer": NaN}')],
)
def test_so_is_a_parameter_of_another_type(name, value):
    assert name not in model_of("odd", {name: value}).parameters


@pytest.mark.planted
def test_a_server_with_less_than_no_queue_closes_no_other():
    async def hold():
        pool = Pool(("127.0.0.1:1", "127.0.0.1:2"), timeout_s=1.0, probe_s=60.0)
        for upstream, most in zip(pool.upstreams, ("4", "-1000000"), strict=True):
            assert isinstance(upstream, Upstream)
            upstream.models["same"] = model_of("same", {"max_num_seqs": most, "max_queue_size": "4"})
        with pool.hold_places("same", 1):
            pass
        for upstream in pool.upstreams:
            await upstream.close()

    asyncio.run(hold())
