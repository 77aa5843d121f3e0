"""One image, classified by a model that has just been exported, before anything else is done."""

import asyncio
import time
from pathlib import Path

from rich.console import Console

from clients.classify import Classifier
from clients.images import file_pixels
from clients.triton_client import TritonClient
from commands.quickstart.pictures import picture
from commands.quickstart.server import serve


def print_first_answer(console: Console, folder: Path, repository: Path, image: Path) -> None:
    """Serve an exported classifier of grey images, and print an image with its served answer."""
    with serve([folder], repository) as endpoints:
        asyncio.run(_print_answer(console, endpoints.grpc, folder.name, image))


async def _print_answer(console: Console, server: str, name: str, image: Path) -> None:
    async with TritonClient(server) as client:
        classifier = await Classifier.find(client, name)
        pixels = file_pixels(classifier.model, image)
        began = time.perf_counter()
        logits = await classifier.logits(pixels[None])
        milliseconds = (time.perf_counter() - began) * 1e3
        guess = classifier.guesses(logits[0])[0]
    for line in picture(pixels[0]):
        console.print(line, highlight=False, markup=False)
    answer = f"→ {guess.label} ({guess.probability:.1%}), by {name} in Triton over gRPC in {milliseconds:.1f} ms"
    console.print(answer, highlight=False, markup=False)
