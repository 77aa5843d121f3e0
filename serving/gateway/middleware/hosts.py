"""By which names the gateway is asked, and from which pages: no page of another site reaches it through a browser.

A page whose name is made to point to this machine (DNS rebinding) names itself in ``Host``; a page that sends a form
or a text without asking first names itself in ``Origin``.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.gateway.errors import RefusedError, body_of
from serving.gateway.settings import GatewaySettings

ANY = "*"
LOCAL = "localhost"
_READING = ("GET", "HEAD", "OPTIONS")


class HostCheck:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app, self._origins = app, {origin.lower() for origin in settings.cors}
        self._names = {name.lower() for name in (settings.host, LOCAL, *settings.allowed_hosts)}
        address = _address(settings.host)
        self._everywhere = address is not None and address.is_unspecified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] == "http":
            try:
                self._check(scope["method"], Headers(scope=scope))
            except RefusedError as error:
                status, body, headers = body_of(error)
                await JSONResponse(body, status, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, method: str, headers: Headers) -> None:
        host = headers.get("host", LOCAL).lower()
        if not self._is_ours(_name_of(host)):
            remedy = "ask by the gateway's address, or start it with --allowed-hosts and this name"
            raise RefusedError(421, f"expected a Host that this gateway has; found {host!r}; {remedy}")
        origin = headers.get("origin", "").lower()
        if method in _READING or not origin or origin.partition("://")[2] == host:
            return
        if not self._origins & {origin, ANY}:
            remedy = "start the gateway with --cors and that origin"
            raise RefusedError(403, f"expected a page of this gateway; found one of {origin!r}; {remedy}")

    def _is_ours(self, name: str) -> bool:
        if self._names & {name, ANY}:
            return True
        address = _address(name)  # no name stands behind a number, so that none can be made to point here
        return address is not None and (self._everywhere or address.is_loopback)


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
