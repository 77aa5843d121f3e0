"""What many tests share: quiet threads, exported artefacts and one running server, each made once."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exports import SharedExports
from tests.planted_bugs import COLLECTED
from tests.scheduling import Scheduling, rank_of

ROOT = Path(__file__).parent.parent
DIGITS, DATES, CAPTIONER = "digits-vit", "dates-transformer", "digits-captioner"
LANGUAGE_MODEL, TEXT_ENCODER = "language-model", "text-encoder"
NARROW_WAITING = 2
NARROW_LENGTH = 32_768  # an answer of as many tokens outlasts what a test does meanwhile
EVERY_TASK = (DIGITS, DATES, CAPTIONER, LANGUAGE_MODEL, TEXT_ENCODER)

torch.set_num_threads(1)


def pytest_configure():
    """A limit that torch does not know would leave `make test-any-processor` with nothing to show."""
    wanted, found = os.environ.get("ATEN_CPU_CAPABILITY"), torch.backends.cpu.get_cpu_capability()  # noqa: TID251
    if wanted and wanted.upper() != found:
        raise pytest.UsageError(f"expected ATEN_CPU_CAPABILITY={wanted} to be in force; found {found}")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup():
    """Random weights are the same whichever tests ran before: also those that a module or a session shares."""
    _seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call():
    """And so is what a test itself draws."""
    _seed()


def _seed():
    # Not Python's own generator: the ids of traces are drawn from it, and must differ from test to test.
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Put what takes longest in front."""
    config.stash[COLLECTED] = list(items)  # before anything is deselected
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_collection_finish():
    """Look for garbage in what tests make, seldom: not in what libraries and the tests themselves are."""
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_xdist_make_scheduler(config, log):
    """Hand whole groups of tests to processes, but where each process runs every test."""
    return Scheduling(config, log) if config.option.dist == "loadscope" else None


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A function from a model to its artefact, which all processes of the run share: tests/exports.py."""
    own = tmp_path_factory.getbasetemp()
    return SharedExports((own.parent if own.name.startswith("popen-gw") else own) / "artefacts")


@pytest.fixture(scope="session")
def tiny_translator(exported):
    """The preset ``transformer-tiny``, exported."""
    return exported("transformer-tiny")


@pytest.fixture(scope="session")
def tiny_classifier(exported):
    """The preset ``vit-tiny``, exported."""
    return exported("vit-tiny")


@pytest.fixture(scope="session")
def digits_artefact(exported):
    """The shipped checkpoint ``digits-vit``, exported."""
    return exported(DIGITS)


@pytest.fixture(scope="session")
def dates_artefact(exported):
    """The shipped checkpoint ``dates-transformer``, exported."""
    return exported(DATES)


@pytest.fixture(scope="session")
def captioner_artefact(exported):
    """The shipped checkpoint ``digits-captioner``, exported."""
    return exported(CAPTIONER)


@pytest.fixture(scope="session")
def explained_digits(exported):
    """The shipped checkpoint ``digits-vit``, exported with its explanation."""
    return exported(DIGITS, explain=True)


@pytest.fixture(scope="session")
def explained_dates(exported):
    """The shipped checkpoint ``dates-transformer``, exported with its explanation."""
    return exported(DATES, explain=True)


@pytest.fixture(scope="session")
def explained_swin(exported):
    """The shipped checkpoint ``digits-swin``, exported with its explanation."""
    return exported("digits-swin", explain=True)


@pytest.fixture(scope="session")
def explained_gru(exported):
    """The shipped checkpoint ``dates-gru``, exported with its explanation, which is no graph more."""
    return exported("dates-gru", explain=True)


@pytest.fixture(scope="session")
def digits_in_bytes(exported):
    """The shipped checkpoint ``digits-vit``, exported for the bytes of images and with its explanation."""
    return exported(DIGITS, explain=True, uint8=True)


@pytest.fixture(scope="session")
def captioner_in_bytes(exported):
    """The shipped checkpoint ``digits-captioner``, exported for the bytes of images."""
    return exported(CAPTIONER, uint8=True)


@pytest.fixture(scope="session")
def language_model(exported):
    """A tiny Llama with a real tokenizer and random weights, exported."""
    from tests.text_checkpoints import write_language_model

    return exported(exported.checkpoint(LANGUAGE_MODEL, write_language_model))


@pytest.fixture(scope="session")
def windowed_language_model(exported):
    """One whose heads ONNX Runtime's attention rotates itself, and whose positions see three others."""
    from tests.text_checkpoints import write_language_model

    folder = exported.checkpoint("windowed", lambda folder: write_language_model(folder, head_size=16, window=4))
    return exported(folder)


@pytest.fixture(scope="session")
def text_encoder(exported):
    """A tiny BERT with a real tokenizer and random weights, exported."""
    from tests.text_checkpoints import write_text_encoder

    return exported(exported.checkpoint(TEXT_ENCODER, write_text_encoder))


@pytest.fixture(scope="session")
def repository(exported, tmp_path_factory):
    """A Triton repository of every shipped checkpoint, each with its explanation."""
    from models.checkpoints.place import shipped_names
    from serving.triton.repository.layout import write_repository

    out = tmp_path_factory.mktemp("serving") / "model_repository"
    names = shipped_names()
    write_repository([exported(name, explain=True) for name in names], out)
    return out


@pytest.fixture(scope="session")
def repository_of_two(digits_artefact, dates_artefact, tmp_path_factory):
    """A Triton repository of a classifier and a translator, for servers that are started and ended."""
    from serving.triton.repository.layout import write_repository

    out = tmp_path_factory.mktemp("serving") / "model_repository"
    write_repository([digits_artefact, dates_artefact], out)
    return out


@pytest.fixture(scope="session")
def shipped_server(repository):
    """A real Triton over every shipped checkpoint; its endpoints."""
    from tests.end_to_end.servers import started

    with started(repository) as running:
        yield running.endpoints
        assert running.poll() is None, running.log.read_text()[-3000:]


@pytest.fixture(scope="session")
def shipped_gateway(shipped_server):
    """A gateway in front of it; its address is ``url``."""
    from tests.end_to_end.gateways import started

    with started(shipped_server.grpc, probe_s=60.0) as running:
        yield running


@pytest.fixture(scope="session")
def repository_of_every_task(
    digits_artefact, dates_artefact, captioner_artefact, language_model, text_encoder, tmp_path_factory
):
    """A Triton repository with one model a task: the shipped checkpoints, and tiny models where there is none."""
    from serving.triton.repository.layout import write_repository

    out = tmp_path_factory.mktemp("serving") / "model_repository"
    write_repository([digits_artefact, dates_artefact, captioner_artefact, language_model, text_encoder], out)
    return out


@pytest.fixture(scope="session")
def server(repository_of_every_task):
    """A real Triton over one model a task; its endpoints."""
    from tests.end_to_end.servers import started

    with started(repository_of_every_task) as running:
        yield running.endpoints
        assert running.poll() is None, running.log.read_text()[-3000:]


@pytest.fixture(scope="session")
def long_language_model(exported):
    """A tiny Llama whose answers have many thousand tokens, exported."""
    from tests.text_checkpoints import write_language_model

    return exported(
        exported.checkpoint("narrow", lambda folder: write_language_model(folder, max_length=NARROW_LENGTH))
    )


@pytest.fixture(scope="session")
def narrow_repository(long_language_model, tmp_path_factory):
    """It, with one slot and room for two that wait."""
    from serving.engine.settings import EngineSettings
    from serving.triton.repository.layout import write_repository

    out = tmp_path_factory.mktemp("narrow") / "repository"
    write_repository([long_language_model], out, engine=EngineSettings(max_num_seqs=1, max_queue_size=NARROW_WAITING))
    return out


@pytest.fixture(scope="session")
def narrow(narrow_repository):
    """A real Triton over it; its endpoints."""
    from tests.end_to_end.servers import started

    with started(narrow_repository) as running:
        yield running.endpoints


@pytest.fixture(scope="session")
def gateway(server):
    """A gateway in front of it; its address is ``url``."""
    from tests.end_to_end.gateways import started

    with started(server.grpc) as running:
        yield running
