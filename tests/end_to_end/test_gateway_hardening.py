"""What strangers send to make the gateway fail, wait, or answer the wrong ones; some of it before no Triton."""

import asyncio
import http.client
import json
import socket
import time
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from serving.gateway import connections
from serving.gateway.connections import BoundedProtocol
from serving.gateway.middleware.keys import new_key
from serving.triton.server.ports import free_ports
from tests.conftest import DATES, LANGUAGE_MODEL, TEXT_ENCODER
from tests.end_to_end.asking import PATIENCE_S, active, counted, until
from tests.end_to_end.gateways import started
from tests.text_checkpoints import PROMPT

HALF = r"\ud800"
DEEP = 10**5
JSON = {"Content-Type": "application/json"}
CANCELLED = "attendant_requests_total{cancelled}"


def endpoint(running):
    parts = urlsplit(running.url)
    return parts.hostname, parts.port


def raw(running, data=b""):
    connection = socket.create_connection(endpoint(running), timeout=PATIENCE_S)
    connection.sendall(data)
    return connection


@pytest.fixture(scope="module")
def alone():
    """A gateway in front of nobody."""
    (nobody,) = free_ports(1)
    with started(f"127.0.0.1:{nobody}", probe_s=3600.0) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("completions", f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a{HALF}"}}', "prompt"),
        ("completions", f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "stop": ["b", "{HALF}"]}}', "stop.1"),
        ("completions", f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "regex": "{HALF}"}}', "regex"),
        ("completions", f'{{"model": "{HALF}", "prompt": "a"}}', "model"),
        ("translate", f'{{"model": "{DATES}", "input": "{HALF}"}}', "input"),
        ("embeddings", f'{{"model": "{TEXT_ENCODER}", "input": ["a", "{HALF}"]}}', "input.1"),
        (
            "chat/completions",
            f'{{"model": "{LANGUAGE_MODEL}", "messages": [{{"role": "user", "content": "{HALF}"}}]}}',
            "messages.0.content",
        ),
        (
            "completions",
            f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "response_format": {{"type": "json_schema", '
            f'"json_schema": {{"schema": {{"{HALF}": 1}}}}}}}}',
            "response_format.json_schema.schema",
        ),
        ("classify", f'{{"model": "{HALF}", "image": ""}}', "model"),
        ("classify", "[" * DEEP, None),
        ("translate", "[" * DEEP, None),
        ("translate", '{"input":' * DEEP, None),
        ("translate", f'{{"model": "{DATES}", "input": NaN}}', None),
        ("completions", f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "temperature": 1e999}}', "temperature"),
        ("completions", f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "seed": {"9" * 5000}}}', None),
        (
            "completions",
            f'{{"model": "{LANGUAGE_MODEL}", "prompt": "a", "response_format": {{"type": "json_schema", '
            '"json_schema": {"schema": {"a": 1e999}}}}',
            "response_format",
        ),
        ("translate", "", None),
        ("translate", '{"model"', None),
        ("translate", '"a text"', None),
    ],
    ids=lambda value: value if value is None or len(value) < 20 else "body",
)
def test_what_is_no_json_of_whole_characters_is_the_requests_mistake(gateway, path, body, param):
    answer = httpx.post(f"{gateway.url}/v1/{path}", content=body, headers=JSON, timeout=PATIENCE_S)
    error = answer.json()["error"]
    assert answer.status_code == 400 and (param is None or error["param"] == param), error
    assert len(error["message"]) < 2100


@pytest.mark.parametrize("value", ["[" * 5000, f'["{HALF}"]', "NaN", "1" * 5000], ids=["deep", "half", "NaN", "large"])
def test_a_field_of_a_form_is_no_way_around_it(gateway, value):
    files = {"image": ("x.png", b"", "image/png")}
    answer = httpx.post(f"{gateway.url}/v1/caption", data={"model": "x", "stop": value, "seed": value}, files=files)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "path", ["/v1/models/%00", "/v1/models/%ED%A0%80", "/v1/models/%ff", "/v1/models/%F0%9F%98%80", "/%00"]
)
def test_any_path_is_answered(gateway, path):
    answer = httpx.get(gateway.url + path, params={"a": "\x00"}, headers={"X-Request-ID": "\xff".encode("latin-1")})
    assert answer.status_code == 404 and answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://{host}/livez", "whatever", 200),
        ("HTTP://{host}?x=1", "whatever", 200),
        ("http://{host}/nowhere", "whatever", 404),
        ("http://evil.example/livez", "{host}", 421),
        ("http:///livez", "{host}", 421),
    ],
)
def test_the_host_of_an_absolute_target_is_the_one_that_counts(alone, target, host, status):
    own = "{}:{}".format(*endpoint(alone))
    lines = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".replace("{host}", own)
    with raw(alone, lines.encode()) as connection:
        assert connection.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


def test_values_without_end_are_refused_before_anything_is_made_of_them(alone):
    many = "[" + "null," * 10**6 + "null]"
    before = time.monotonic()
    for path in ("completions", "classify", "embeddings"):
        body = f'{{"model": "x", "prompt": {many}}}'[: 4 * 2**20]
        assert httpx.post(f"{alone.url}/v1/{path}", content=body, headers=JSON).status_code in (400, 413)
    assert time.monotonic() - before < 20
    long = json.dumps({"model": DATES, "input": "a" * 5 * 2**20})
    assert httpx.post(f"{alone.url}/v1/translate", content=long, headers=JSON).status_code == 413


@pytest.mark.parametrize("value", ["null", '{"a":1}', "-1", '""'])
def test_a_list_of_mistakes_costs_no_more_than_its_first(alone, value):
    body = f'{{"model": "x", "prompt": [{",".join([value] * 60_000)}]}}'
    answer = httpx.post(f"{alone.url}/v1/completions", content=body, headers=JSON)
    assert answer.status_code == 400 and len(answer.content) < 5000
    unknown = json.dumps({f"field{number}": 1 for number in range(50_000)})
    answer = httpx.post(f"{alone.url}/v1/completions", content=unknown, headers=JSON)
    assert answer.status_code == 400 and "fields in an object" in answer.json()["error"]["message"]


def test_bodies_share_what_they_may_take_and_small_ones_are_answered_all_the_same():
    (nobody,) = free_ports(1)
    part = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    part += b"Content-Length: 1000000\r\n\r\n" + b" " * 900_000
    with started(f"127.0.0.1:{nobody}", bodies_bytes=2_700_000, body_bytes=1_000_000) as running:
        held = [raw(running, part) for _ in range(2)]
        time.sleep(0.5)
        third = raw(running, part)
        answer = third.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in answer.lower()
        small = {"model": DATES, "input": "a"}
        assert httpx.post(f"{running.url}/v1/translate", json=small).json()["error"]["code"] == "server_unreachable"
        for one in (*held, third):
            one.close()
        large = {"model": "x", "image": " " * 900_000}

        async def free():
            return await until(lambda: httpx.post(f"{running.url}/v1/classify", json=large).status_code == 400)

        assert asyncio.run(free())


@pytest.mark.planted
@pytest.mark.parametrize("claimed", [b"", b"X-Forwarded-For: 10.0.0.%d\r\n"], ids=["as it is", "under other addresses"])
def test_a_client_whose_bodies_come_slowly_leaves_room_for_others(claimed):
    (nobody,) = free_ports(1)
    part = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    end = b"Content-Length: 1000000\r\n\r\n" + b" " * 900_000
    large = {"model": "x", "image": " " * 300_000}
    with started(f"127.0.0.1:{nobody}", bodies_bytes=2_700_000, body_bytes=1_000_000) as running:
        held = [raw(running, part + (claimed and claimed % number) + end) for number in range(4)]
        time.sleep(0.5)
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=transport, headers={"Host": "localhost"}) as other:
            answers = [other.post(f"{running.url}/v1/classify", json=large) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [400] * 3
        for one in held:
            one.close()


@pytest.mark.parametrize("length", [b"0", b"5"])
def test_a_body_of_two_lengths_is_refused_and_what_follows_is_no_request(alone, length):
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: " + length + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    with raw(alone, head + b"0\r\n\r\n" + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        answered = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answered.startswith(b"HTTP/1.1 400 ") and answered.count(b"HTTP/1.1 ") == 1


def test_a_body_of_a_million_chunks_is_refused_before_most_of_them_are_read(alone):
    head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with raw(alone, head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 5000) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    chunks = (b" " * 100 for _ in range(10_000))
    answer = httpx.post(f"{alone.url}/v1/translate", content=chunks, headers=JSON)
    assert answer.status_code == 400 and "JSON" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("LOCALHOST.:80", 200),
        ("[::1]:80", 200),
        ("10.1.2.3", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(alone, host, status):
    assert httpx.get(f"{alone.url}/livez", headers={"Host": host}).status_code == status


def test_names_are_those_of_the_setting_and_any_number_where_it_listens_everywhere():
    (nobody,) = free_ports(1)
    with started(f"127.0.0.1:{nobody}", host="0.0.0.0", allowed_hosts=("Ask.example",)) as running:
        statuses = [
            httpx.get(f"{running.url}/livez", headers={"Host": host}).status_code
            for host in ("ask.example", "10.1.2.3:8080", "[2001:db8::1]", "evil.example")
        ]
    assert statuses == [200, 200, 200, 421]


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example", 403), ("null", 403), ("http://localhost:1", 403), ("same", 503), (None, 503)],
)
def test_a_page_of_another_origin_cannot_send(alone, origin, status):
    origin = alone.url if origin == "same" else origin
    headers = {"Origin": origin} if origin else {}
    answer = httpx.post(f"{alone.url}/v1/translate", json={"model": DATES, "input": "a"}, headers=headers)
    assert answer.status_code == status
    text = httpx.post(f"{alone.url}/v1/translate", content="{}", headers={**headers, "Content-Type": "text/plain"})
    assert text.status_code == (403 if status == 403 else 415)


def test_every_response_keeps_a_browser_from_running_it_and_no_page_loads_from_elsewhere(alone):
    for path, status in {"/livez": 200, "/v1/models": 503, "/nowhere": 404, "/openapi.json": 200, "/docs": 200}.items():
        answer = httpx.get(alone.url + path)
        assert answer.status_code == status and answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert httpx.get(f"{alone.url}/redoc").status_code == 404


def test_with_keys_nothing_is_told_without_one_but_that_it_lives_and_is_ready(tmp_path):
    secret = new_key(tmp_path / "keys.json", "ann", requests="1/hour")
    (nobody,) = free_ports(1)
    with started(f"127.0.0.1:{nobody}", keys=tmp_path / "keys.json") as running:
        headers = {"Authorization": f"Bearer {secret}"}
        for path in ("/metrics", "/openapi.json", "/v1/models", "/nowhere"):
            assert httpx.get(running.url + path).status_code == 401
        for _ in range(3):  # which count for no limit
            assert httpx.get(f"{running.url}/metrics", headers=headers).status_code == 200
        asked = [httpx.get(f"{running.url}/openapi.json", headers=headers).status_code for _ in range(2)]
        assert asked == [200, 429]
        assert httpx.get(f"{running.url}/livez").json() == {"alive": True}
        assert httpx.get(f"{running.url}/readyz").json() == {"ready": False}
        assert "upstreams" in httpx.get(f"{running.url}/readyz", headers=headers).json()
        assert (
            httpx.get(running.url).status_code == httpx.get(f"{running.url}/docs").status_code == 200
        )  # files, no more
        assert httpx.get(f"{running.url}/playground/app.js").status_code == 200


def closes(connection):
    """Whether it is closed, in time."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def _ends(send):
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        try:
            send()
        except OSError:
            return True
        time.sleep(0.2)
    return False


def test_connections_whose_headers_do_not_come_are_closed_and_others_are_answered(monkeypatch, alone):
    monkeypatch.setattr(connections, "HEADERS_S", 2.0)
    begins = [b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /l"]
    half = [raw(alone, begins[number % 3]) for number in range(300)]
    try:
        for _ in range(5):
            assert httpx.get(f"{alone.url}/livez", timeout=10).status_code == 200
        with raw(alone, b"GET /livez HTTP/1.1\r\nA: ") as dribbling:
            assert _ends(lambda: dribbling.sendall(b"a"))
        assert all(closes(connection) for connection in half)
    finally:
        for connection in half:
            connection.close()


def test_a_connection_is_kept_for_longer_between_requests_than_headers_may_take(monkeypatch, alone):
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 7.0)  # uvicorn's own bound is 5 s
    kept = http.client.HTTPConnection(*endpoint(alone), timeout=PATIENCE_S)
    with closing(kept):
        for pause_s in (5.5, 0.0):
            kept.request("GET", "/livez")
            assert kept.getresponse().read() and kept.sock is not None
            time.sleep(pause_s)
        kept.sock.sendall(b"GET")
        began = time.monotonic()
        assert closes(kept.sock) and time.monotonic() - began < PATIENCE_S / 2


@pytest.mark.planted
def test_a_connection_that_nobody_watches_would_stay_open(monkeypatch, alone):
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    monkeypatch.setattr(BoundedProtocol, "_watch", lambda self: None)
    with raw(alone, b"GET") as half:
        half.settimeout(3)
        assert not closes(half)


def test_no_more_connections_than_may_be_and_the_one_that_waits_longest_goes(monkeypatch, alone):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    half = [raw(alone, b"GET") for _ in range(60)]
    try:
        assert httpx.get(f"{alone.url}/livez", timeout=10).status_code == 200
        assert closes(half[0])
        open_now = [one for one in alone.server.server_state.connections if isinstance(one, BoundedProtocol)]
        assert len(open_now) <= 20
    finally:
        for connection in half:
            connection.close()


@pytest.mark.parametrize("bound", ["bytes", "time"])
def test_a_client_that_never_reads_frees_its_slot(narrow, monkeypatch, bound):
    from serving.gateway import events

    if bound == "bytes":
        monkeypatch.setattr(events, "UNREAD_BYTES", 1 << 12)
    else:
        monkeypatch.setattr(connections, "UNREAD_S", 0.5)
    body = json.dumps(
        {
            "model": LANGUAGE_MODEL,
            "prompt": PROMPT,
            "max_tokens": 3900,
            "ignore_eos": True,
            "stream": True,
            "logprobs": 20,
        }
    ).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with started(narrow.grpc, probe_s=3600.0) as running:
        asyncio.run(until(lambda: httpx.get(f"{running.url}/readyz").status_code == 200))
        # Otherwise the kernel may take the whole answer: it lets a sender's buffer grow to megabytes.
        running.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        before = counted(narrow, LANGUAGE_MODEL, CANCELLED)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(endpoint(running))
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert asyncio.run(until(lambda: counted(narrow, LANGUAGE_MODEL, CANCELLED) == before + 1))
            assert asyncio.run(until(lambda: active(narrow) == 0))
            if bound == "bytes":
                connection.settimeout(PATIENCE_S)
                read = b""
                while b"[DONE]" not in read:
                    read += connection.recv(1 << 20)
                assert b"bytes unread" in read
            else:
                assert closes(connection)
