"""The stage around the builder: what is checked, written, refused and left alone. The builder itself is not here."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from attendant.engine_manifest import EngineManifest
from attendant.errors import ArtefactError, ConfigError, ExportError, MachineError, OutputError
from attendant.manifest import Manifest, sha256_of
from export.targets.constraints.graph import Graph
from export.tensorrt import build as stage
from export.tensorrt.attention_nodes import attention_nodes
from export.tensorrt.build import build_engines
from export.tensorrt.compat import EnginePlan
from export.tensorrt.config import EngineConfig
from tests.conftest import DATES
from tests.nvidia.engines import H100


class Builder:
    """In TensorRT's place: plans are bytes that say what was asked."""

    tells_aliases, lost = True, None

    def __init__(self):
        self.built, self.device_bytes, self.fused, self.aliased, self.paths = [], 1 << 20, True, {}, {}

    def build_plan(self, path, profiles, config, timings, account, aliased_plugins):
        self.aliased[path.stem], self.paths[path.stem] = aliased_plugins, path
        self.built.append((path.stem, [profile.name for profile in profiles], timings))
        return EnginePlan(plan=f"plan of {path.stem}".encode(), timings=lambda kept: kept + path.stem.encode())

    def open_plan(self, plan, version_compatible, weights=None):
        stem = plan.decode().removeprefix("plan of ")
        graph = stem.split(".")[0]
        aliases = dict(self.signatures[graph].aliases) if self.tells_aliases else {}
        names = [spec.name for one in ("inputs", "outputs") for spec in getattr(self.signatures[graph], one)]
        outputs = {spec.name for spec in self.signatures[graph].outputs}
        return SimpleNamespace(
            graph=graph,
            stem=stem,
            device_memory_size_v2=self.device_bytes,
            num_io_tensors=len(names),
            get_tensor_name=names.__getitem__,
            get_tensor_mode=lambda name: SimpleNamespace(name="OUTPUT" if name in outputs else "INPUT"),
            get_aliased_input_tensor=aliases.get,
        )

    def layers_of(self, opened, profile):
        kernel = "_gemm_mha_v2_myl0_1" if self.fused else "__myl_MaxSubExp_myl0_1"
        layers = [{"Name": kernel, "Metadata": f"[ONNX Layer: {node}]"} for node in self.nodes.get(opened.graph, ())]
        plugins = [node for node in onnx.load(self.paths[opened.stem]).graph.node if node.domain == "attendant"]
        layers += [
            {"Name": node.name, "LayerType": "PluginV3", "Metadata": f"[ONNX Layer: {node.name}]"}
            for node in plugins
            if node.op_type != self.lost
        ]
        return json.dumps({"Layers": layers})

    def use(self, folder):
        self.folder = folder
        self.signatures = {signature.name: signature for signature in Manifest.read(folder).graphs}

    @property
    def nodes(self):
        return {
            name: attention_nodes(Graph(self.folder / f"{name}.onnx", signature))
            for name, signature in self.signatures.items()
        }


@pytest.fixture
def builder(monkeypatch, dates_artefact):
    made = Builder()
    made.use(dates_artefact)
    for name in ("build_plan", "open_plan", "layers_of"):
        monkeypatch.setattr(stage, name, getattr(made, name))
    monkeypatch.setattr(stage, "tensorrt_module", lambda: None)
    monkeypatch.setattr(stage, "this_platform", lambda: H100)
    monkeypatch.setattr(stage, "weight_bytes_of", lambda opened: 1 << 20)
    return made


def build(folder, out, **said):
    return build_engines(folder, out, said.pop("graphs", ()), EngineConfig(**said))


def test_every_graph_gets_an_engine_that_is_described_beside_it(builder, dates_artefact, tmp_path):
    engines, done = build(dates_artefact, tmp_path / DATES)
    assert done and [one.graph for one in engines.engines] == ["encoder", "decoder"]
    assert [(name, profiles) for name, profiles, _ in builder.built] == [
        ("encoder.tensorrt", ["every"]),
        ("decoder.tensorrt", ["decode", "prefill"]),
    ]
    assert (tmp_path / DATES / "decoder.plan").read_bytes() == b"plan of decoder.tensorrt"
    assert EngineManifest.read(tmp_path / DATES) == engines
    manifest = Manifest.read(tmp_path / DATES)
    manifest.verify(tmp_path / DATES)
    engines.verify(tmp_path / DATES, manifest)
    decoder = engines.engine("decoder")
    assert decoder.source == manifest.file_for("decoder", "tensorrt") == "decoder.tensorrt.onnx"
    assert decoder.aliases == manifest.graph("decoder").aliases
    assert (decoder.device_bytes, decoder.weight_bytes) == (1 << 20, 1 << 20)


def test_engines_in_fp8_are_refused_for_gpus_that_lack_it(builder, dates_artefact, tmp_path, monkeypatch):
    folder = shutil.copytree(dates_artefact, tmp_path / "fp8")
    dataclasses.replace(Manifest.read(folder), precision="fp8").write(folder)
    with pytest.raises(
        ConfigError, match=r"8\.9 or higher for 'dates-transformer' in fp8; found --hardware ampere-plus"
    ):
        build(folder, tmp_path / DATES, hardware="ampere-plus")
    for capability in ("8.0", "8.6"):
        monkeypatch.setattr(
            stage, "this_platform", lambda found=capability: dataclasses.replace(H100, capability=found)
        )
        with pytest.raises(MachineError, match=rf"found NVIDIA .* {capability}; export it again: .*--precision fp16"):
            build(folder, tmp_path / DATES)
        assert build(dates_artefact, tmp_path / DATES)[1], "other precisions are built there"
    monkeypatch.setattr(stage, "this_platform", lambda: dataclasses.replace(H100, capability="8.9"))
    assert build(folder, tmp_path / "ada")[1]


def test_the_second_build_uses_what_the_first_has_timed(builder, dates_artefact, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build(dates_artefact, tmp_path / DATES)
    assert [timings for _, _, timings in builder.built] == [b"", b"encoder.tensorrt"]


def test_unchanged_engines_are_left_alone(builder, dates_artefact, tmp_path):
    first, _ = build(dates_artefact, tmp_path / DATES)
    second, done = build(dates_artefact, tmp_path / DATES)
    assert not done and second == first and len(builder.built) == 2


@pytest.mark.parametrize("change", ["asked", "damaged", "machine"])
def test_engines_are_built_again_when_something_has_changed(builder, dates_artefact, tmp_path, change, monkeypatch):
    build(dates_artefact, tmp_path / DATES)
    if change == "damaged":
        (tmp_path / DATES / "encoder.plan").write_bytes(b"")
    if change == "machine":
        monkeypatch.setattr(stage, "this_platform", lambda: dataclasses.replace(H100, tensorrt="11.4.1"))
    engines, done = build(dates_artefact, tmp_path / DATES, version_compatible=change == "asked")
    assert done and len(builder.built) == 4
    assert engines.engine("encoder").version_compatible == (change == "asked")


def test_engines_can_stand_in_the_artefacts_own_folder(builder, dates_artefact, tmp_path):
    shutil.copytree(dates_artefact, tmp_path / DATES)
    before = {path.name for path in (tmp_path / DATES).iterdir()}
    build(tmp_path / DATES, tmp_path / DATES, graphs=("decoder",))
    after = {path.name for path in (tmp_path / DATES).iterdir()}
    assert after - before == {"decoder.plan", "engine.json"} and before <= after


def test_attention_that_was_not_fused_fails_and_writes_nothing(builder, dates_artefact, tmp_path):
    builder.fused = False
    with pytest.raises(ExportError, match=r"Attention nodes in a fused kernel of graph 'encoder'"):
        build(dates_artefact, tmp_path / DATES)
    assert not (tmp_path / DATES).exists()


def test_attention_that_fell_apart_is_accepted_and_counted_where_that_is_allowed(builder, dates_artefact, tmp_path):
    builder.fused = False
    engines, _ = build(dates_artefact, tmp_path / DATES, allow_decomposed=True)
    assert [one.attention for one in engines.engines] == [{"decomposed": 2}, {"decomposed": 4}]
    assert engines.command.endswith("--allow-decomposed")


def test_what_is_expected_to_fuse_is_said_before_anything_is_built(builder, dates_artefact, tmp_path):
    said = []
    build_engines(
        dates_artefact, tmp_path / DATES, (), EngineConfig(), lambda line: said.append((line, len(builder.built)))
    )
    assert said == [
        ("encoder: 2 of 2 attentions are expected to fall apart: numbers of float32", 0),
        ("decoder: 4 of 4 attentions are expected to fall apart: numbers of float32", 0),
    ]


def test_graphs_that_hand_each_other_another_type_get_their_engines_together(builder, exported, tmp_path):
    artefact = exported(DATES, precision="int8")
    builder.use(artefact)
    with pytest.raises(ConfigError, match=r"engines of encoder and decoder.*--graphs without encoder"):
        build(artefact, tmp_path / "a", graphs=("decoder",))
    engines, _ = build(artefact, tmp_path / "b")
    assert [one.source for one in engines.engines] == ["encoder.tensorrt.onnx", "decoder.tensorrt.onnx"]


def test_an_engine_that_needs_more_memory_than_it_may_take_fails(builder, dates_artefact, tmp_path):
    builder.device_bytes = 100 << 20
    with pytest.raises(ExportError, match=r"at most 64 MiB.*1 MiB of weights and 100 MiB to compute"):
        build(dates_artefact, tmp_path / DATES, memory_mb=64)


def test_a_graph_that_tensorrt_does_not_read_is_refused_before_anything_is_built(builder, dates_artefact, tmp_path):
    shutil.copytree(dates_artefact, tmp_path / "a")
    path = tmp_path / "a/decoder.tensorrt.onnx"
    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == "Attention")
    others = [attribute for attribute in node.attribute if attribute.name != "softcap"]
    del node.attribute[:]
    node.attribute.extend([*others, onnx.helper.make_attribute("softcap", 5.0)])
    onnx.save(model, path)
    manifest = Manifest.read(tmp_path / "a")
    manifest.files[path.name] = sha256_of(path)
    manifest.write(tmp_path / "a")
    with pytest.raises(ExportError, match=r"softcap.*as tensorrt wants.*in graph decoder"):
        build(tmp_path / "a", tmp_path / "b")
    assert builder.built == [] and not (tmp_path / "b").exists()


def test_the_command_builds_the_same_again():
    config = EngineConfig(weights="stripped", hardware="ampere-plus", memory_mb=512, tf32=True)
    words = stage.command_of(Path("a b"), Path("c"), ["decoder"], config)
    assert words == (
        "attendant export tensorrt 'a b' --out c --graphs decoder "
        "--weights stripped --hardware ampere-plus --memory-mb 512 --tf32"
    )


def test_a_graph_that_is_not_there_is_named(builder, dates_artefact, tmp_path):
    with pytest.raises(ArtefactError, match="a graph named 'model'"):
        build(dates_artefact, tmp_path / DATES, graphs=("model",))


def test_a_folder_with_other_things_is_not_replaced(builder, dates_artefact, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="an empty folder or an earlier export"):
        build(dates_artefact, tmp_path)


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="memory_mb above 0"):
        EngineConfig(memory_mb=0)


def test_building_needs_no_torch_so_that_it_runs_in_tritons_image():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['safetensors'] = sys.modules['onnxscript'] = None\n"
        "import export.tensorrt.build, export.tensorrt.refit, export.tensorrt.compat, serving.triton.repository.layout"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_machine_without_tensorrt_is_told_so_by_name(dates_artefact, tmp_path):
    with pytest.raises(MachineError, match="TensorRT"):
        build(dates_artefact, tmp_path / DATES)


@pytest.fixture
def compiler(monkeypatch):
    """In the place of what compiles plugins, which takes TensorRT: it says what it was asked for."""
    asked = []

    @contextlib.contextmanager
    def embedding(target):
        asked.append(target)
        yield SimpleNamespace(hashes=lambda: {"flash_attention": "0" * 64})

    module = SimpleNamespace(register_plugins=lambda: SimpleNamespace(embed_kernels=embedding))
    monkeypatch.setitem(sys.modules, "export.tensorrt.plugins.registration", module)
    return asked


def test_with_plugins_the_engine_is_built_from_a_form_of_the_graph_that_has_them(
    builder, compiler, dates_artefact, tmp_path
):
    builder.fused = False  # no Attention is left that TensorRT should fuse
    engines, _ = build(dates_artefact, tmp_path / DATES, attention="plugin")
    assert [(name, profiles) for name, profiles, _ in builder.built] == [
        ("encoder.plugins", ["every"]),
        ("decoder.decode.plugins", ["decode"]),
        ("decoder.prefill.plugins", ["prefill"]),
    ]
    assert compiler == ["sm_90"] * 3
    assert [one.file for one in engines.of("decoder")] == ["decoder.decode.plan", "decoder.prefill.plan"]
    assert all(one.plugins == {"flash_attention": "0" * 64} for one in engines.engines)
    assert all((tmp_path / DATES / one.lowered.file).is_file() for one in engines.engines)
    assert [one.source for one in engines.engines] == ["encoder.onnx", "decoder.onnx", "decoder.onnx"]
    assert EngineManifest.read(tmp_path / DATES) == engines and "--attention plugin" in engines.command
    engines.verify(tmp_path / DATES, Manifest.read(tmp_path / DATES))
    assert build(dates_artefact, tmp_path / DATES, attention="plugin")[1] is False


def test_steps_are_attended_by_a_kernel_of_their_own_and_prompts_by_another(
    builder, compiler, dates_artefact, tmp_path
):
    engines, _ = build(dates_artefact, tmp_path / DATES, attention="plugin")
    fired = {one.phase: {made["name"]: made["fired"] for made in one.lowered.passes} for one in engines.of("decoder")}
    assert fired["decode"]["fuse_decode_attention"] == 4 and fired["decode"]["fuse_flash_attention"] == 0
    assert fired["prefill"]["fuse_flash_attention"] == 4 and "fuse_decode_attention" not in fired["prefill"]
    operators = {
        one.phase: {node.op_type for node in onnx.load(tmp_path / DATES / one.lowered.file).graph.node}
        for one in engines.of("decoder")
    }
    assert {"decode_attention", "combine_splits"} < operators["decode"] and "flash_attention" not in operators["decode"]


def test_plugins_are_counted_and_one_that_the_engine_lacks_fails_by_name(builder, compiler, dates_artefact, tmp_path):
    engines, _ = build(dates_artefact, tmp_path / DATES, attention="plugin")
    assert [one.attention for one in engines.engines] == [
        {"flash_attention": 2},
        {"combine_splits": 4, "decode_attention": 4},
        {"flash_attention": 4},
    ]
    builder.lost = "combine_splits"
    with pytest.raises(ExportError, match=r"8 plugins .*graph 'decoder'.*none for .*\.combined"):
        build(dates_artefact, tmp_path / "b", attention="plugin")
    assert not (tmp_path / "b").exists()


def test_caches_can_be_written_by_the_plugin_of_single_steps_alone(builder, compiler, dates_artefact, tmp_path):
    builder.tells_aliases = False
    engines, _ = build(dates_artefact, tmp_path / DATES, attention="plugin", append_in_plugin=True)
    assert builder.aliased == {
        "encoder.plugins": False,
        "decoder.decode.plugins": True,
        "decoder.prefill.plugins": False,
    }
    steps, prompts = engines.of("decoder")
    assert {one["name"]: one["fired"] for one in steps.lowered.passes}["fuse_decode_append"] == 2
    assert steps.aliases == Manifest.read(dates_artefact).graph("decoder").aliases and prompts.aliases == {}
    assert "--append-in-plugin" in engines.command
    with pytest.raises(ConfigError, match="--attention plugin with --append-in-plugin"):
        EngineConfig(append_in_plugin=True)


def test_a_decoder_without_a_place_for_plugins_is_one_engine(builder, compiler, windowed_language_model, tmp_path):
    builder.use(windowed_language_model)
    engines, _ = build(windowed_language_model, tmp_path / "a", attention="plugin")
    assert [(one.file, len(one.profiles), one.lowered.file) for one in engines.engines] == [("decoder.plan", 2, "")]


def test_without_plugins_none_is_embedded(builder, compiler, dates_artefact, tmp_path):
    engines, _ = build(dates_artefact, tmp_path / DATES)
    assert compiler == [] and [(one.plugins, one.lowered) for one in engines.engines] == [({}, None)] * 2


@pytest.mark.parametrize("other", [{"weights": "stripped"}, {"hardware": "ampere-plus"}, {"version_compatible": True}])
def test_plugins_are_refused_in_engines_that_outlive_their_code(other):
    with pytest.raises(ConfigError, match="plugin"):
        EngineConfig(attention="plugin", **other)
