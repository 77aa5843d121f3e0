"""The playground at ``/`` and the reference of the API at ``/docs``, which ask this gateway and nothing else."""

from functools import partial
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGES = {"/": "index.html", "/docs": "docs.html"}
FOLDER = Path(__file__).parents[1] / "playground"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again each time, and sent again only where it has changed
}


def install(app: FastAPI) -> None:
    """Let an application serve the pages."""
    for path, file in PAGES.items():
        app.add_api_route(path, partial(_page, file), methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/playground", _Files(directory=FOLDER))


async def _page(file: str) -> FileResponse:
    return FileResponse(FOLDER / file, headers=HEADERS)


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response
