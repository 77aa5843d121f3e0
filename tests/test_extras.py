"""Every extra brings what it promises in :mod:`attendant.extras`: seen in processes that lack the rest."""

import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import grimp
import pytest
from packaging.requirements import Requirement

from attendant.extras import EXTRAS, LEFT_OUT, provider_of, tables
from tests.conftest import ROOT

OURS = ("attendant", "models", "export", "serving", "clients", "commands")
# The Makefile installs these beside dev; a CUDA build of torch brings its own triton, onnxruntime-gpu the module
# onnxruntime.
BESIDE = {"dev": {"triton", "timm"}, "gpu": {"triton", "onnxruntime"}}


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def required_by(extra):
    """The closure of an extra's requirements: normalised names of distributions."""
    found, todo = set(), [("attendant", frozenset({extra}))]
    while todo:
        if (demand := todo.pop()) not in found:
            found.add(demand)
            todo += demands_of(*demand)
    return {name for name, _ in found} | BESIDE.get(extra, set())


def demands_of(name, extras):
    with suppress(PackageNotFoundError):
        for line in distribution(name).requires or ():
            one = Requirement(line)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                yield normalised(one.name), frozenset(one.extras)


@cache
def owners():
    """Top-level module → normalised names of the distributions that hold it."""
    return {module: {normalised(one) for one in names} for module, names in packages_distributions().items()}


def hidden_from(extra):
    return sorted(module for module, names in owners().items() if not names & required_by(extra))


def within(module, packages):
    return any(module == one or module.startswith(f"{one}.") for one in packages)


def every_module():
    for root in OURS:
        for found in pkgutil.walk_packages(import_module(root).__path__, f"{root}."):
            if not found.name.endswith("__main__"):
                yield found.name


EVERY_MODULE = tuple(every_module())


def promised(extra):
    promise = EXTRAS[extra]
    lacking = {module for need in promise.lacks for module in LEFT_OUT[need]}
    return [one for one in EVERY_MODULE if within(one, promise.packages) and not within(one, lacking)]


def in_a_process_without_the_rest(extra, modules, commands=()):
    order = {"hidden": hidden_from(extra), "modules": modules, "commands": commands}
    process = subprocess.run(
        [sys.executable, "-m", "tests.hidden_distributions"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=280,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


# Each is five seconds of imports.
SLOW = {"export", "gpu", "dev"}


@pytest.mark.parametrize("extra", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in EXTRAS])
def test_an_extra_imports_and_runs_what_it_promises(extra):
    verbs = [["attendant", *verb.split(), "--help"] for verb in EXTRAS[extra].verbs]
    modules = promised(extra)
    assert len(modules) >= len(EXTRAS[extra].packages)
    assert in_a_process_without_the_rest(extra, modules, verbs) == {}


@pytest.mark.parametrize(
    ("extra", "module", "hidden"), [("cpu", "models.kernels.rotary", "triton"), ("", "serving.gateway.app", "fastapi")]
)
def test_an_import_of_a_hidden_distribution_is_seen(extra, module, hidden):
    assert in_a_process_without_the_rest(extra, [module]) == {
        module: f"ModuleNotFoundError: No module named '{hidden}'"
    }


@pytest.mark.parametrize(
    ("command", "extra", "module"),
    [
        (["attendant", "gateway"], "gateway", "uvicorn"),
        (["attendant", "models", "describe", "vit-tiny"], "export", "torch"),
        (["attendant", "inspect", "model_repository"], "export", "onnx"),
    ],
)
def test_a_verb_says_in_one_line_which_extra_it_lacks(command, extra, module):
    (said,) = in_a_process_without_the_rest("", [], [command]).values()
    assert said == (
        f"error: expected the module {module!r}, of the extra {extra!r}; found it not installed; "
        f"run python -m pip install --constraint constraints.txt --editable '.[{extra}]'\n"
    )


@pytest.fixture(scope="module")
def imports():
    """What each module imports, also within functions, but not for types alone."""
    return grimp.build_graph(*OURS, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None)


def missing_distributions(extra, graph):
    """Direct imports of promised modules, wherever they stand in a file, that the extra does not bring."""
    hidden = set(hidden_from(extra)) - set(OURS)
    return {
        (module, found)
        for module in promised(extra)
        for found in graph.find_modules_directly_imported_by(module)
        if found.partition(".")[0] in hidden
    }


# Optional, or of one precision or format, and behind an error that says so.
OPTIONAL = {
    ("serving.runtime.openvino.runner", "openvino"),
    ("export.passes.quantise.block_quantisers", "onnxruntime"),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_promised_module_imports_another_distribution_within_a_function(extra, imports):
    assert missing_distributions(extra, imports) - OPTIONAL == set()


def test_every_extra_of_the_project_has_a_promise():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == {"", *project["optional-dependencies"]}


def test_a_missing_distribution_names_an_extra_that_brings_it(imports):
    beyond_base = set(hidden_from("")) & imports.modules - set(OURS)
    assert len(beyond_base) > 15
    for module in beyond_base:
        assert (extra := provider_of(module)) is not None, module
        assert owners()[module] & required_by(extra), (module, extra)


def test_the_documents_table_is_the_data():
    assert tables() in (ROOT / "docs" / "reference" / "extras.md").read_text()
