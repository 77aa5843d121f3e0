"""A line that is full, deadlines, priorities and requests that are taken back, before a real server with one slot."""

import asyncio
import subprocess
import sys
from contextlib import aclosing, asynccontextmanager

import pytest

from attendant.errors import BusyError, DeadlineError, InputError, ServerError, UnreachableError
from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from clients.health import health
from clients.retry import RetryPolicy
from clients.triton_client import TritonClient
from serving.triton.server.ports import free_ports
from tests.conftest import LANGUAGE_MODEL, NARROW_LENGTH, NARROW_WAITING, ROOT
from tests.end_to_end.asking import PATIENCE_S, active, ask, counted, python_m, until
from tests.end_to_end.servers import started
from tests.text_checkpoints import PROMPT

WAITING = NARROW_WAITING
LONG = SamplingParams(max_tokens=NARROW_LENGTH - 96, ignore_eos=True)
SHORT = SamplingParams(max_tokens=1, ignore_eos=True)


@asynccontextmanager
async def occupied(client, server):
    """While the only slot is somebody else's."""
    generator = await Generator.find(client)
    async with aclosing(generator.stream(PROMPT, LONG)) as stream:
        await anext(stream)
        yield generator
    assert await until(lambda: active(server) == 0)


def cancelled(server):
    """As of the last count of what is served: the metrics are told together, and late."""
    return counted(server, LANGUAGE_MODEL, "attendant_requests_total{cancelled}")


def rejected(server):
    return counted(server, LANGUAGE_MODEL, "attendant_requests_total{rejected}")


def waiting(server):
    return counted(server, LANGUAGE_MODEL, "attendant_num_requests_waiting")


def test_leaving_an_answer_early_frees_its_slot(narrow):
    async def left(client):
        generator = await Generator.find(client)
        async with aclosing(generator.stream(PROMPT, LONG)) as stream:
            await anext(stream)
            assert await until(lambda: active(narrow) == 1)
            before = cancelled(narrow)
        return before, await until(lambda: active(narrow) == 0)

    before, freed = ask(narrow, left)
    assert freed and cancelled(narrow) == before + 1


def test_a_client_that_vanishes_frees_its_slot(narrow):
    asked = ["--server", narrow.grpc, "--max-tokens", str(LONG.max_tokens), "--ignore-eos", *PROMPT.split()]
    command = ["clients", "generate", *asked]
    client = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        assert asyncio.run(until(lambda: active(narrow) == 1))
        before = cancelled(narrow)
    finally:
        client.kill()
        client.wait()
    assert asyncio.run(until(lambda: active(narrow) == 0))
    assert cancelled(narrow) == before + 1


def test_one_request_more_than_may_wait_is_told_so_at_once_and_the_others_are_answered(narrow):
    async def crowd(client):
        async with occupied(client, narrow) as generator:
            patient = [asyncio.ensure_future(generator.answer(PROMPT, SHORT)) for _ in range(WAITING)]
            assert await until(lambda: waiting(narrow) == WAITING)
            with pytest.raises(BusyError, match=f"queue full: {WAITING} requests waiting; retry later"):
                await generator.answer(PROMPT, SHORT)
            (busy,) = await health(client)
            assert busy.healthy and busy.found == f"at work: 1 requests run, {WAITING} wait"
        return await asyncio.gather(*patient)

    first, second = ask(narrow, crowd)
    assert first == second


def test_a_retry_policy_gets_everybody_an_answer(narrow):
    async def crowd():
        retry = RetryPolicy(tries=10_000, pause_s=0.05, longest_pause_s=0.2)
        async with TritonClient(narrow.grpc, retry=retry) as client:
            options = SamplingParams(max_tokens=20, ignore_eos=True)
            async with occupied(client, narrow) as generator:
                before = rejected(narrow)
                asked = [asyncio.ensure_future(generator.answer(PROMPT, options)) for _ in range(20)]
                assert await until(lambda: rejected(narrow) > before)
            return await asyncio.gather(*asked)

    assert len(set(asyncio.run(crowd()))) == 1


def test_a_retry_does_not_outlive_the_deadline_of_its_request(narrow):
    async def hurried():
        retry = RetryPolicy(tries=10_000, pause_s=0.1, longest_pause_s=0.1)
        async with TritonClient(narrow.grpc, retry=retry) as client, occupied(client, narrow) as generator:
            patient = [asyncio.ensure_future(generator.answer(PROMPT, SHORT)) for _ in range(WAITING)]
            assert await until(lambda: waiting(narrow) == WAITING)
            with pytest.raises(BusyError):
                await asyncio.wait_for(
                    generator.answer(PROMPT, SamplingParams(max_tokens=1, deadline_ms=300)), PATIENCE_S
                )
        await asyncio.gather(*patient)

    asyncio.run(hurried())


def test_what_is_the_clients_mistake_is_not_sent_again(narrow):
    async def mistaken():
        async with TritonClient(narrow.grpc, retry=RetryPolicy(tries=10, pause_s=600.0)) as client:
            await asyncio.wait_for(
                (await Generator.find(client)).answer(PROMPT, SamplingParams(temperature=-1.0)), PATIENCE_S
            )

    with pytest.raises(InputError, match="temperature"):
        asyncio.run(mistaken())


def test_an_answer_that_is_not_whole_by_its_deadline_ends_with_that_error(narrow):
    async def hurried(client):
        generator = await Generator.find(client)
        said = []
        with pytest.raises(DeadlineError, match="no whole answer within 200 ms"):
            async for piece in generator.stream(
                PROMPT, SamplingParams(max_tokens=4000, ignore_eos=True, deadline_ms=200)
            ):
                said += piece.token_ids
        return said

    assert ask(narrow, hurried)


def test_a_deadline_ends_the_waiting_too(narrow):
    async def hurried(client):
        async with occupied(client, narrow) as generator:
            await generator.answer(PROMPT, SamplingParams(max_tokens=1, deadline_ms=100))

    with pytest.raises(DeadlineError, match="within 100 ms"):
        ask(narrow, hurried)


def test_an_answer_comes_piece_by_piece_and_not_at_its_end(narrow):
    async def counted_pieces(client):
        return [
            piece
            async for piece in (await Generator.find(client)).stream(
                PROMPT, SamplingParams(max_tokens=500, ignore_eos=True)
            )
        ]

    pieces = ask(narrow, counted_pieces)
    assert len(pieces) > 1, "on a busy machine many tokens leave together"
    assert sum(len(piece.token_ids) for piece in pieces) == 500


def test_the_higher_priority_is_served_first(narrow):
    async def ordered(client):
        done = []

        async def asked(generator, priority, tokens):
            await generator.answer(PROMPT, SamplingParams(max_tokens=tokens, ignore_eos=True, priority=priority))
            done.append(priority)

        async with occupied(client, narrow) as generator:
            low = asyncio.ensure_future(asked(generator, 1, 2000))  # long: a short one's end may be told late
            assert await until(lambda: waiting(narrow) == 1)
            high = asyncio.ensure_future(asked(generator, 0, 5))
            assert await until(lambda: waiting(narrow) == 2)
        await asyncio.gather(low, high)
        return done

    assert ask(narrow, ordered) == [0, 1]


def test_the_first_token_may_take_longer_than_the_others_or_less(narrow):
    async def asked(client, first_timeout_s, timeout_s):
        async with occupied(client, narrow) as patient, TritonClient(narrow.grpc, timeout_s) as hasty:
            generator = Generator(hasty, patient.model, first_timeout_s)
            with pytest.raises(ServerError, match=f"within {first_timeout_s:g} s"):
                await generator.answer(PROMPT, SHORT)

    ask(narrow, lambda client: asked(client, first_timeout_s=0.1, timeout_s=PATIENCE_S))
    ask(narrow, lambda client: asked(client, first_timeout_s=0.4, timeout_s=0.2))


def test_a_server_that_is_gone_is_asked_no_more_where_there_is_another(narrow):
    (nobody,) = free_ports(1)

    async def asked(*servers):
        async with TritonClient(",".join(servers)) as client:
            return await (await Generator.find(client)).answers(PROMPT, SHORT)

    assert len(asyncio.run(asked(f"127.0.0.1:{nobody}", narrow.grpc))) == 1
    with pytest.raises(UnreachableError, match=f"no Triton server answers at 127.0.0.1:{nobody}"):
        asyncio.run(asked(f"127.0.0.1:{nobody}"))


def test_a_server_that_is_stopping_finishes_what_it_began_and_others_are_asked_the_rest(narrow_repository, narrow):
    options = SamplingParams(max_tokens=2000, ignore_eos=True)

    async def answered_while_stopping(server):
        both = f"{server.endpoints.grpc},{narrow.grpc}"
        async with TritonClient(server.endpoints.grpc) as client:
            begun = (await Generator.find(client)).stream(PROMPT, options)
            said = list((await anext(begun)).token_ids)
            stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
            assert await untaken(client)
            async with TritonClient(both, retry=RetryPolicy(tries=2)) as other:
                (elsewhere,) = await (await Generator.find(other)).answers(PROMPT, SHORT)
                assert other.server == narrow.grpc
            said += [token async for piece in begun for token in piece.token_ids]
        await stopping
        return len(said), len(elsewhere.token_ids)

    async def untaken(client):
        while True:
            try:
                await client.models()
            except UnreachableError as error:
                return "takes requests" in str(error)
            await asyncio.sleep(0.02)

    with started(narrow_repository) as server:
        assert asyncio.run(answered_while_stopping(server)) == (2000, 1)


def test_the_command_asks_each_of_its_servers(narrow):
    (nobody,) = free_ports(1)
    words = ["clients", "generate", *PROMPT.split(), "--max-tokens", 1, "--server"]
    told = python_m(*words, f"127.0.0.1:{nobody},{narrow.grpc}")
    assert told.returncode == 0, told.stderr
    refused = python_m(*words, f"127.0.0.1:{nobody}", "--tries", 2)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
