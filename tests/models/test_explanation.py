import pytest
from PIL import Image

from attendant.errors import ConfigError, InputError
from models.checkpoints.resolve import checkpoint_named
from models.explanation import ExplainOptions, explain, explain_positions
from tests.run_here import run_here

THREE = "docs/examples/three.png"


def explained(*words):
    return run_here("models", "explain", *words)


def test_a_classifier_s_figure_is_written_and_its_answer_told(tmp_path):
    done = explained("digits-vit", THREE, "--out", tmp_path / "a.png", "--fusion", "max", "--discard", "0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'a.png'}: 3 (")
    with Image.open(tmp_path / "a.png") as figure:
        assert figure.width > 5 * figure.height  # seven panels beside each other


@pytest.mark.parametrize("name", ["dates-transformer", "dates-gru"])
def test_a_translator_s_alignment_has_a_row_for_each_of_its_tokens(name, tmp_path):
    options = ExplainOptions(subject="3rd of march 1997", out=tmp_path / "a.png")
    assert explain(checkpoint_named(name), options) == "1997-03-03"
    with Image.open(options.out) as figure:
        assert figure.width > figure.height


def test_a_language_model_s_figure_has_a_row_for_each_token_that_it_adds(tmp_path):
    options = ExplainOptions(subject="Open a file and", out=tmp_path / "a.png")
    answer = explain(checkpoint_named("stdlib-lm"), options)
    assert answer.strip()
    with Image.open(options.out) as figure:
        assert min(figure.size) > 500


def test_another_label_has_another_evidence(tmp_path):
    model, pictures = checkpoint_named("digits-vit"), []
    for label in ("3", "5"):
        options = ExplainOptions(subject=THREE, out=tmp_path / f"{label}.png", label=label)
        assert explain(model, options).startswith(f"{label} (")
        pictures.append(options.out.read_bytes())
    assert pictures[0] != pictures[1]


def test_without_a_subject_the_positions_are_drawn(tmp_path):
    done = explained("digits-vit", "--out", tmp_path / "a.png")
    assert done.stdout == f"{tmp_path / 'a.png'}: 4 × 4 positions\n"


@pytest.mark.parametrize(
    ("name", "subject", "label", "error"),
    [
        ("bert-tiny", "Return", None, ConfigError),
        ("llama-tiny", "Return", None, ConfigError),
        ("digits-vit", THREE, "eleven", InputError),
        ("digits-vit", "missing.png", None, InputError),
        ("vit-tiny", THREE, None, ConfigError),
    ],
    ids=str,
)
def test_what_cannot_be_explained_is_refused(name, subject, label, error, tmp_path):
    with pytest.raises(error):
        explain(checkpoint_named(name), ExplainOptions(subject=subject, out=tmp_path / "a.png", label=label))


def test_a_model_of_texts_has_no_positions_of_patches(tmp_path):
    with pytest.raises(ConfigError, match="learned positions of patches"):
        explain_positions(checkpoint_named("dates-gru"), tmp_path / "a.png")
