"""Whether our server says that it is live and ready.

That is necessary and not sufficient: Triton 2.51 goes on saying so when a model's stub is dead (server#8604).
And it must be ours: Triton takes its ports after loading its models, and another server may have been faster.
"""

import http.client

PROBE_TIMEOUT_S = 2.0


def says_ready(http_endpoint: str, name: str) -> bool:
    """Ask the server of this name once; False when nothing answers, or another one does."""
    probes = ("/v2/health/live", "/v2/health/ready")
    if any(_body(http_endpoint, path) is None for path in probes):
        return False
    return name.encode() in (_body(http_endpoint, "/v2") or b"")


def _body(http_endpoint: str, path: str) -> bytes | None:
    connection = http.client.HTTPConnection(http_endpoint, timeout=PROBE_TIMEOUT_S)  # heeds no proxy settings
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.read() if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
