"""The 360 held-out digits, answered by PyTorch, by ONNX Runtime in this process, and by Triton over gRPC."""

import asyncio
import time
from pathlib import Path

import torch

from attendant.manifest import Manifest
from attendant.progress import progress
from attendant.tensor_names import LOGITS, PIXELS
from clients.classify import Classifier
from clients.triton_client import TritonClient
from commands.quickstart.answers import Answers
from models.checkpoints.store import Checkpoint
from serving.runtime.base import Array
from serving.runtime.create_runners import create_runners


@torch.no_grad()
def in_pytorch(checkpoint: Checkpoint, images: Array) -> Answers:
    """All images in one batch of the eager model."""
    guesses = checkpoint.model(torch.from_numpy(images)).argmax(1).tolist()
    return Answers(answers=[checkpoint.details["labels"][guess] for guess in guesses])


def in_process(folder: Path, images: Array) -> Answers:
    """One image a call, through the same runner that the server uses."""
    manifest = Manifest.read(folder)
    runner = create_runners(folder, manifest)["model"]
    answers, latencies_ms = [], []
    for image in images:
        began = time.perf_counter()
        logits = runner.run({PIXELS: image[None]})[LOGITS].numpy()
        answers.append(str(manifest.details["labels"][int(logits[0].argmax())]))
        latencies_ms.append((time.perf_counter() - began) * 1e3)
    return Answers(answers=answers, latencies_ms=latencies_ms)


def served(server: str, name: str, images: Array) -> Answers:
    """One image a request, one request after the other, over gRPC."""
    return asyncio.run(_served(server, name, images))


async def _served(server: str, name: str, images: Array) -> Answers:
    answers, latencies_ms = [], []
    async with TritonClient(server) as client:
        classifier = await Classifier.find(client, name)
        with progress("digits over gRPC", len(images)) as advance:
            for image in images:
                began = time.perf_counter()
                guess = classifier.guesses((await classifier.logits(image[None]))[0])[0]
                latencies_ms.append((time.perf_counter() - began) * 1e3)
                answers.append(guess.label)
                advance(guess.label)
    return Answers(answers=answers, latencies_ms=latencies_ms)
