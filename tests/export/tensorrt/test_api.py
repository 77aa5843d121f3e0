"""Every name of TensorRT's that our code uses is in NVIDIA's own bindings of 10.16 and 11.4, with these arguments."""

import ast
import inspect
import re
import typing
from pathlib import Path

import pytest

from export.tensorrt import api as builder_api
from serving.runtime.tensorrt import api as runtime_api
from tests.nvidia.libraries import HERE, ROOT, VERSIONS, bindings, made_libraries, python

FILES = ("export/tensorrt/compat.py", "serving/runtime/tensorrt/library.py", "serving/runtime/tensorrt/runner.py")
OBJECTS = {
    "runtime": "Runtime",
    "refitter": "Refitter",
    "graph_parser": "OnnxParserRefitter",
    "context": "IExecutionContext",
}
PROTOCOLS = {**builder_api.BINDINGS, **runtime_api.BINDINGS}


@pytest.fixture(scope="module", params=VERSIONS)
def described(request, tmp_path_factory):
    folder = bindings(request.param)
    libraries = made_libraries(tmp_path_factory.mktemp("libraries"), request.param)
    found = python((HERE / "describe.py").read_text(), libraries, folder)
    assert found["version"].startswith(request.param)
    return found


def chains(file):
    """Attributes of attributes, the longest of each, from their first name on: ``("trt", "BuilderFlag", "TF32")``."""
    longest = []

    class Visitor(ast.NodeVisitor):
        def visit_Attribute(self, node):
            names, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                names, value = [value.attr, *names], value.value
            if isinstance(value, ast.Name):
                longest.append((value.id, *names))
            elif isinstance(value, ast.Call) and getattr(value.func, "id", "") == "tensorrt_module":
                longest.append(("trt", *names))
            else:
                self.generic_visit(node)

    Visitor().visit(ast.parse(Path(ROOT / file).read_text()))
    return longest


def used(first):
    return sorted({chain[1:] for file in FILES for chain in chains(file) if chain[0] == first})


def exists(described, names):
    if names[0] not in described["classes"]:
        return names[0] in described["names"]
    return len(names) == 1 or (names[1] in described["classes"][names[0]])


def test_every_name_of_the_package_exists(described):
    names = used("trt")
    assert len(names) > 20
    assert [".".join(chain) for chain in names if not exists(described, chain)] == []


def test_a_name_that_one_version_lacks_would_be_found(described):
    assert not exists(described, ("NetworkDefinitionCreationFlag", "WEAKLY_TYPED"))
    assert exists(described, ("BuilderFlag", "FP16")) == described["version"].startswith("10.")


@pytest.mark.parametrize("variable", OBJECTS)
def test_every_method_of_an_object_without_a_protocol_exists(described, variable):
    names = {chain[0] for chain in used(variable)}
    assert names
    assert names - described["classes"][OBJECTS[variable]].keys() == set()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_every_member_of_a_protocol_exists_with_its_arguments(described, protocol):
    members = described["classes"][PROTOCOLS[protocol]]
    assert set(typing.get_type_hints(protocol)) - members.keys() == set()
    methods = {name: method for name, method in vars(protocol).items() if inspect.isfunction(method)}
    for name in methods.keys() - {"__init__", "__buffer__", "_no_init_or_replace_init", "__subclasshook__"}:
        assert name in members, name
        ours = list(inspect.signature(methods[name]).parameters)[1:]
        theirs = overloads(members[name], name)
        assert any(required <= len(ours) and ours == names[: len(ours)] for names, required in theirs), (ours, theirs)


def overloads(text, name):
    """The argument names of each signature in a description, and how many of them have no default."""
    found = []
    for arguments in re.findall(rf"{name}\((self: .*)\) ->", text):
        parts = re.split(r", (?=\w+: )", arguments)[1:]
        names = [part.split(":")[0] for part in parts]
        found.append((names, sum(" = " not in part for part in parts)))
    return found


def test_the_log_and_the_progress_monitor_are_classes_that_the_bindings_take(described, tmp_path):
    version = next(one for one in VERSIONS if described["version"].startswith(one))
    found = python(_SUBCLASSES, made_libraries(tmp_path, version), bindings(version))
    assert found == [[40, "one thing"], "KeyboardInterrupt is told", 3, True]


_SUBCLASSES = """
import json, logging, sys
from export.tensorrt.build_progress import BuildProgress
from export.tensorrt.config import EngineConfig
from export.tensorrt.compat import builder_flags, hardware_level, monitor_for
from serving.runtime.tensorrt.library import tensorrt_log, tensorrt_module
trt, said = tensorrt_module(), []
logging.getLogger("tensorrt").addFilter(lambda record: said.append([record.levelno, record.getMessage()]))
tensorrt_log().log(trt.ILogger.Severity.ERROR, "one thing")
account = BuildProgress("x")
monitor = monitor_for(trt, account)
monitor.phase_start("Building", None, 2)
monitor.phase_start("Timing", "Building", 5)
assert monitor.step_complete("Timing", 0) and monitor.step_complete("Building", 0)
def stop(_): raise KeyboardInterrupt
account._advance["Building"] = stop
told = "KeyboardInterrupt is told" if not monitor.step_complete("Building", 1) else "it goes on"
monitor.phase_finish("Building")
config = EngineConfig(weights="stripped", version_compatible=True)
levels = {str(hardware_level(trt, level)) for level in ("this-gpu", "same-capability", "ampere-plus")}
assert list(trt.Dims((2, -1, 3))) == [2, -1, 3] and 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) > 0
print(json.dumps([said[0], told, len(builder_flags(trt, config)), len(levels) == 3]))
"""


def test_bindings_of_another_version_than_the_library_are_refused(tmp_path):
    libraries = made_libraries(tmp_path, "11.4.1")
    code = _SUBCLASSES.split("trt, said", 1)[0] + (
        "try:\n    tensorrt_module()\nexcept Exception as error:\n"
        "    print(json.dumps([type(error).__name__, str(error)]))"
    )
    kind, message = python(code, libraries, bindings("11.4.0"))
    assert kind == "MachineError" and "tensorrt 11.4.1" in message and "11.4.0" in message
