"""CONTRIBUTING's recipes name what has to be touched, and all of it: followed with what came last of each kind."""

import asyncio
import re
import subprocess
from inspect import getmembers, isfunction
from typing import get_args

import pytest

from attendant.parameters import RUNTIMES
from clients.load.scenario import Target
from clients.load.scenario import Transport as TransportName
from clients.load.transport import Transport, create_transport
from serving.runtime.base import Runner
from serving.runtime.openvino.runner import OpenVinoRunner
from serving.runtime.ort.runner import OrtRunner
from serving.runtime.tensorrt.runner import TrtRunner
from serving.runtime.torch.runner import TorchRunner
from tests.conftest import ROOT

PACKAGES = ("attendant", "models", "export", "serving", "clients", "commands")
# Recipe → what marks every file that knows the newest of its kind.
MARKS = {
    "A new runtime": r'OpenVinoRunner|openvino_is_installed|"openvino(-bf16|-cpu)?"',
    "A new transport of load tests": r'OpenAITransport|transport == "openai"|case "openai"',
}
# Triton's own backends of the same name.
OTHERS = {"A new runtime": {"serving/lint/answers.py", "serving/lint/backends.py"}}


def named_in(recipe):
    text = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {recipe}\n")[2].partition("\n## ")[0]
    return {path.rstrip("/") for path in re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w./]+)`", text)}


@pytest.mark.parametrize("recipe", MARKS)
def test_a_recipe_names_every_file_that_knows_the_newest_of_its_kind(recipe):
    found = subprocess.run(
        ["git", "grep", "-lE", MARKS[recipe], "--", *PACKAGES], cwd=ROOT, capture_output=True, text=True
    )
    known, named = set(found.stdout.split()), named_in(recipe)
    assert known
    unnamed = {file for file in known if not any(file == one or file.startswith(f"{one}/") for one in named)}
    assert unnamed == OTHERS.get(recipe, set())


def public(protocol):
    return {name for name, _ in getmembers(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("runner", [OrtRunner, OpenVinoRunner, TrtRunner, TorchRunner])
def test_every_runtime_keeps_the_protocol(runner):
    assert public(Runner) - public(runner) == set()


def test_every_name_of_a_runtime_is_one_that_is_chosen():
    chosen = (ROOT / "serving/runtime/create_runners.py").read_text()
    assert [name for name in RUNTIMES if name not in chosen] == []


async def create_and_close(target):
    made = create_transport(target)
    await made.close()
    return made


@pytest.mark.parametrize("name", get_args(TransportName))
def test_every_name_of_a_transport_is_a_file_and_a_class_that_keeps_the_protocol(name):
    address = "http://127.0.0.1:1" if name == "openai" else "127.0.0.1:1"
    made = asyncio.run(create_and_close(Target(transport=name, address=address)))
    assert type(made).__module__ == f"clients.load.{name}_transport"
    methods = {method for method, _ in getmembers(Transport, isfunction) if not method.startswith("_")}
    assert methods and methods - set(dir(made)) == set()
