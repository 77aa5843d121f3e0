import json
import os
import signal
import subprocess
import sys
import time

import pytest

from attendant.errors import ArtefactError, InputError, OutputError, UnknownNameError
from attendant.manifest import Manifest
from export.artefact.stage import export_onnx
from export.precision.precisions import PRECISIONS
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import save_checkpoint
from tests.models.checkpoints.folders import rewrite_config
from tests.run_here import run_here


@pytest.fixture
def checkpoint_folder(tmp_path):
    folder = tmp_path / "checkpoint"
    save_checkpoint(checkpoint_named("vit-tiny"), folder)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_artefact_holds_its_graphs_and_a_manifest_with_their_hashes(tiny_translator):
    manifest = Manifest.read(tiny_translator)
    assert {path.name for path in tiny_translator.iterdir()} >= {"encoder.onnx", "decoder.onnx", "manifest.json"}
    forms = {"decoder.ort-cpu.onnx", "decoder.tensorrt.onnx", "encoder.openvino-cpu.onnx", "encoder.tensorrt.onnx"}
    assert manifest.files.keys() == {"encoder.onnx", "decoder.onnx", *forms}
    manifest.verify(tiny_translator)


def test_an_unchanged_export_is_not_done_again(tiny_classifier):
    before = contents(tiny_classifier)
    manifest, done = export_onnx("vit-tiny", tiny_classifier)
    assert not done
    assert manifest == Manifest.read(tiny_classifier)
    assert contents(tiny_classifier) == before


WITHOUT_TORCH = """
import sys
from pathlib import Path
from export.artefact.stage import export_onnx
assert export_onnx(sys.argv[1], Path(sys.argv[2]))[1] is False
print(sorted({"torch", "numpy", "onnx", "onnxruntime"} & sys.modules.keys()))
"""


def test_an_unchanged_export_is_known_without_torch(tiny_classifier):
    command = [sys.executable, "-c", WITHOUT_TORCH, "vit-tiny", str(tiny_classifier)]
    known = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (known.stdout, known.stderr) == ("[]\n", "")


def test_graphs_that_are_there_in_fp32_are_rewritten_and_those_of_another_model_or_option_are_not(
    tiny_classifier, tmp_path, monkeypatch
):
    wanted, _ = export_onnx("vit-tiny", tmp_path / "alone", precision="int8")
    monkeypatch.setattr("export.artefact.onnx_artefact.run_each", refused)
    manifest, done = export_onnx("vit-tiny", tmp_path / "from-fp32", precision="int8", exported=tiny_classifier)
    assert done
    assert (manifest.files, manifest.fingerprint) == (wanted.files, wanted.fingerprint)
    for name, options in (("swin-tiny", {}), ("vit-tiny", {"explain": True})):
        with pytest.raises(RuntimeError, match="exported anew"):
            export_onnx(name, tmp_path / "others", precision="int8", exported=tiny_classifier, **options)


def refused(*_):
    raise RuntimeError("exported anew")


@pytest.mark.slow
def test_of_two_exports_at_once_one_works_and_the_other_finds_it_done(tmp_path):
    out = tmp_path / "artefact"
    command = [sys.executable, "-m", "attendant", "export", "onnx", "vit-tiny", "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    (first, first_errors), (second, second_errors) = (process.communicate(timeout=120) for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert sorted([first, second]) == [
        f"vit-tiny: model.onnx {done} {out}\n" for done in ("up to date in", "written to")
    ]
    assert (first_errors + second_errors).count(f"another process is writing {out}: waiting until it has ended") == 1
    Manifest.read(out).verify(out)
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]


ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size="$4" tmpfs "$1"
cp -r "$2" "$1/artefact"
cd "$1/artefact"
sha256sum * > "$3"
cd "$OLDPWD"
status=0
"$5" -m attendant export onnx deit-distilled-tiny --out "$1/artefact" 2> "$3.errors" || status=$?
cd "$1/artefact"
sha256sum --check --strict --quiet "$3"
ls -A "$1"
exit $status
"""


@pytest.mark.slow
def test_a_full_disk_is_told_with_a_way_out_and_leaves_the_old_artefact(tmp_path, tiny_classifier):
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    disk, sums = tmp_path / "disk", tmp_path / "sums"
    disk.mkdir()
    pages = sum(-(-len(value) // 4096) for value in contents(tiny_classifier).values())
    words = [disk, tiny_classifier, sums, f"{4 * pages + 8}k", sys.executable]
    command = ["unshare", "-Urm", "bash", "-c", ON_A_SMALL_DISK, "bash", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    errors = sums.with_name("sums.errors").read_text()
    assert (ended.returncode, ended.stdout) == (2, "artefact\n"), ended.stderr + errors
    assert f"a place to write at {disk}/artefact; found [Errno 28] No space left on device; free some space" in errors


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="choose another --out"):
        export_onnx("vit-tiny", tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_place_that_cannot_be_written_is_refused_by_name():
    with pytest.raises(OutputError, match="/proc/artefact"):
        export_onnx("vit-tiny", __import__("pathlib").Path("/proc/artefact"))


def test_an_unknown_model_is_refused_by_name_and_with_where_to_look(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown model 'vit-enormous'; name one of `attendant models list`"):
        export_onnx("vit-enormous", tmp_path / "out")


def test_truncated_weights_are_refused_and_the_old_artefact_stays(checkpoint_folder, tmp_path, tiny_classifier):
    out = tmp_path / "artefact"
    out.mkdir()
    for name, value in contents(tiny_classifier).items():
        (out / name).write_bytes(value)
    weights = checkpoint_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ArtefactError, match=r"model\.safetensors"):
        export_onnx(str(checkpoint_folder), out)
    assert contents(out) == contents(tiny_classifier)


@pytest.mark.slow
def test_an_export_killed_in_the_middle_leaves_the_old_artefact_and_the_next_clears_away(tmp_path, tiny_classifier):
    out = tmp_path / "artefact"
    out.mkdir()
    for name, value in contents(tiny_classifier).items():
        (out / name).write_bytes(value)
    before = contents(out)
    command = [sys.executable, "-m", "attendant", "export", "onnx", "transformer-tiny", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".artefact.staging-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    while group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)  # its workers notice, and the semaphores that they shared are removed
    assert contents(out) == before
    assert len(list(tmp_path.iterdir())) > 1, "or nothing was left to clear away"
    (out / "model.onnx").write_bytes(b"damaged")
    assert export_onnx("vit-tiny", out)[1], "a damaged graph is exported again"
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["artefact"]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["onnx", "vit-enormous", "--out", "x"], 2, "unknown model 'vit-enormous'"),
        (["onnx", "vit-tiny", "--out", "/proc/x"], 2, "a place to write at /proc/x"),
        (["check", "/nowhere"], 2, "no artefact at /nowhere: manifest.json is missing"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(words, status, says):
    refused = run_here("export", *words)
    assert refused.returncode == status
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert says in refused.stderr


def test_a_preset_records_where_it_came_from(tiny_classifier):
    value = json.loads((tiny_classifier / "manifest.json").read_text())
    assert value["source"] == "vit-tiny"
    assert value["versions"].keys() == {"torch", "onnx", "onnxscript"}


@pytest.mark.parametrize("manifest", ['{"name": "A web page", "icons": []}', "{", "[]"])
def test_a_folder_with_another_programs_manifest_is_not_replaced(checkpoint_folder, tmp_path, manifest):
    (other := tmp_path / "page").mkdir()
    (other / "manifest.json").write_text(manifest)
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="an earlier export"):
        export_onnx(str(checkpoint_folder), other)
    assert (other / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("precision", ["int4-kv8", "int8-static", "fp8"])
def test_a_precision_that_measures_wants_samples_before_anything_is_exported(precision, tmp_path, monkeypatch):
    monkeypatch.setattr("export.artefact.stage._export", None)
    with pytest.raises(InputError, match=r"inputs to calibrate tinyllama-1\.1b with.*--calibration"):
        export_onnx("tinyllama-1.1b", tmp_path / "artefact", precision=precision)
    (tmp_path / "texts.txt").write_text("the house is small")
    for samples, found in (("texts.txt", "neither a tokenizer nor a preprocessing"), ("gone.npz", "nothing at")):
        with pytest.raises(InputError, match=found):
            export_onnx("tinyllama-1.1b", tmp_path / "artefact", precision=precision, calibration=tmp_path / samples)


@pytest.mark.parametrize(("bits", "precision"), [(4, "int8"), (4, "int4-hqq"), (8, "int4"), (8, "fp8")])
def test_integers_of_a_checkpoint_are_not_quantised_once_more(
    bits, precision, checkpoint_folder, tmp_path, monkeypatch
):
    rewrite_config(checkpoint_folder, details={"weight_bits": bits})
    monkeypatch.setattr("export.artefact.stage._export", lambda *_: pytest.fail("it is worked on"))
    samples = {"calibration": tmp_path} if PRECISIONS[precision].calibrated else {}
    with pytest.raises(InputError) as caught:
        export_onnx(str(checkpoint_folder), tmp_path / "x", precision=precision, **samples)
    assert caught.value.expected.startswith(f"a precision for weights that are integers of {bits} bits already: fp32, ")
    assert caught.value.found == precision
