import asyncio

import pytest

from attendant.errors import UnreachableError
from clients.load.scenario import Inputs, Scenario, Target, Workload
from clients.load.server_counts import ServerCounter, counters_of

PAGE = """\
# HELP nv_inference_request_success Number of successful inference requests
nv_inference_request_success{model="a",version="1"} 5
nv_inference_request_success{model="b",version="1"} 7
nv_inference_request_success{model="c",version="1"} 100
nv_inference_request_failure{model="a",reason="OTHER",version="1"} 1
nv_inference_request_failure{model="a",reason="CANCELED",version="1"} 2
nv_inference_queue_duration_us{model="a",version="1"} 2500
nv_cpu_utilization 0.5
attendant_generation_tokens_total{model="a"} 40
attendant_time_to_first_token_seconds_bucket{le="0.1",model="a"} 9
attendant_time_to_first_token_seconds_bucket{model="a",le="0.2"} 9
"""


def test_counters_are_added_over_the_models_that_were_asked():
    found = counters_of(PAGE, {"a", "b"}.__contains__)
    assert found == {
        "nv_inference_request_success": 12,
        "nv_inference_request_failure": 3,
        "nv_inference_queue_duration_us": 2500,
        "attendant_generation_tokens_total": 40,
    }


def test_an_address_without_metrics_is_refused_by_its_key():
    workload = Workload(name="a", model="a", inputs=Inputs(kind="zeros"))
    scenario = Scenario(workloads=(workload,), target=Target(metrics="127.0.0.1:1"), requests=1)
    with pytest.raises(UnreachableError, match=r"target\.metrics"):
        asyncio.run(ServerCounter.start(scenario))


@pytest.mark.parametrize("page", [b"no HTTP at all", b'HTTP/1.1 200 OK\r\n\r\na{model="a"} not-a-number\n'])
def test_what_is_no_page_of_metrics_is_refused_likewise(page):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(page)
        writer.close()

    async def ask():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            workload = Workload(name="a", model="a", inputs=Inputs(kind="zeros"))
            await ServerCounter.start(Scenario(workloads=(workload,), target=Target(metrics=address), requests=1))

    with pytest.raises(UnreachableError, match=r"target\.metrics"):
        asyncio.run(ask())


@pytest.mark.planted
def test_what_is_no_number_is_left_out_and_a_line_without_end_costs_nothing():
    long = "a{" + 'model="a" ' * 100_000
    page = f'{long}\nb_total{{model="a"}} NaN\nc_total{{model="a"}} +Inf\nd_total{{model="a"}} 3\n'
    assert counters_of(page, {"a"}.__contains__) == {"d_total": 3.0}
