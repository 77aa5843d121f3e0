import json
import sys

import pytest
import transformers
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

from attendant.chat_template import LONGEST_TEMPLATE, create_environment
from attendant.errors import ArtefactError, MachineError
from attendant.tokenization import load_tokenizer
from attendant.tokenizer import RenderedText
from models.checkpoints.importers.library import quietly
from models.checkpoints.importers.tokenizer import keep_tokenizer
from tests.models.checkpoints.importers.saved import characters, write
from tests.models.sentencepieces import SENTENCES, sentencepiece_model, write_marian_files

TEXTS = [*SENTENCES, "  two   spaces\nand a line", "don't (stop): 50 %", "naïve 日本 😀", "A FINE thing"]
BYTE_LEVEL = ("gpt2", "bart", "qwen2")
LLAMA = {"size": 400, "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}


def slow_folder(folder, model_type):
    """The files of a tokenizer from before there was a tokenizer.json."""
    folder.mkdir()
    write(folder / "config.json", model_type=model_type)
    if model_type == "bert":
        library = BertWordPieceTokenizer()
        library.train_from_iterator(SENTENCES, vocab_size=150, show_progress=False)
        library.save_model(str(folder))
    elif model_type == "t5":
        (folder / "spiece.model").write_bytes(sentencepiece_model(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    elif model_type == "llama":
        (folder / "tokenizer.model").write_bytes(sentencepiece_model("bpe", **LLAMA))
        write(
            folder / "tokenizer_config.json", tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False
        )
    else:
        library = ByteLevelBPETokenizer()
        specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
        library.train_from_iterator(SENTENCES, vocab_size=320, special_tokens=specials, show_progress=False)
        library.save_model(str(folder))
    return folder


def kept(source):
    out = source.with_name(source.name + "-kept")
    out.mkdir()
    return keep_tokenizer(source, out), out


@pytest.mark.parametrize("model_type", [*BYTE_LEVEL, "bert", "t5", "llama"])
def test_the_files_of_a_slow_tokenizer_are_converted_into_one_that_says_the_same(model_type, tmp_path):
    source = slow_folder(tmp_path / "theirs", model_type)
    details, folder = kept(source)
    ours = load_tokenizer(folder, details["tokenizer"])
    with quietly():
        theirs = transformers.AutoTokenizer.from_pretrained(source)
    for text in TEXTS:
        ids = theirs(text)["input_ids"]
        assert ours.encode(text, longest=999) == ids
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("model_type", "first", "last"),
    [("bert", "[CLS]", "[SEP]"), ("bart", "<s>", "</s>"), ("t5", None, "</s>"), ("llama", "<s>", None)],
)
def test_the_special_tokens_around_a_text_are_the_models(model_type, first, last, tmp_path):
    details, folder = kept(slow_folder(tmp_path / "theirs", model_type))
    ids = load_tokenizer(folder, details["tokenizer"]).encode("house", longest=99)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    number = {entry["content"]: entry["id"] for entry in vocabulary}
    assert first is None or ids[0] == number[first]
    assert last is None or ids[-1] == number[last]


@pytest.mark.parametrize("model_type", [*BYTE_LEVEL, "bert", "t5", "llama"])
def test_a_special_token_that_a_user_writes_stays_text(model_type, tmp_path):
    details, folder = kept(slow_folder(tmp_path / "theirs", model_type))
    tokenizer = load_tokenizer(folder, details["tokenizer"])
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    special = {entry["id"] for entry in added if entry["special"] and "unk" not in entry["content"].lower()}
    around = sum(one in special for one in tokenizer.encode("house", longest=99))
    written = " ".join(["house", *(entry["content"] for entry in added)])
    assert sum(one in special for one in tokenizer.encode(written, longest=9999)) == around


def test_sentencepieces_that_transformers_reads_otherwise_are_refused(tmp_path):
    source = slow_folder(tmp_path / "theirs", "llama")
    (source / "tokenizer_config.json").unlink()  # then it takes no space before the first word
    with pytest.raises(ArtefactError) as caught:
        kept(source)
    assert "of tokenizer.model for 'The house is small.'" in caught.value.expected
    assert "tokenizer_class" in caught.value.remedy


def test_a_tokenizer_json_is_kept_as_it_is(tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    details, folder = kept(source)
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert details == {"tokenizer": {"unknown": "keep"}}
    assert [path.name for path in folder.iterdir()] == ["tokenizer.json"]


def test_marians_three_files_are_kept_as_they_are(tmp_path):
    source = tmp_path / "theirs"
    write_marian_files(source)
    details, folder = kept(source)
    for path in source.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert load_tokenizer(folder, details["tokenizer"]).encode("日", longest=9)


def test_a_folder_without_a_tokenizer_is_refused_with_what_would_be_one(tmp_path):
    (tmp_path / "theirs").mkdir()
    with pytest.raises(
        ArtefactError, match=r"tokenizer\.json, or source\.spm.*vocab\.json\+merges\.txt.*spiece\.model"
    ):
        kept(tmp_path / "theirs")


def test_a_slow_tokenizer_without_transformers_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    with pytest.raises(MachineError, match=r"vocab\.txt alone.*pip install transformers"):
        kept(slow_folder(tmp_path / "theirs", "bert"))


def test_files_that_transformers_cannot_read_are_refused(tmp_path):
    source = slow_folder(tmp_path / "theirs", "gpt2")
    (source / "merges.txt").write_text("no merges at all here")
    (source / "vocab.json").write_text("{")
    with pytest.raises(ArtefactError, match="a tokenizer that transformers can convert"):
        kept(source)


START = {"content": "<|start|>", "lstrip": False, "rstrip": True, "normalized": False, "special": True}


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config.json": {"added_tokens_decoder": {"99": START, "7": {**START, "content": "<x>"}}}},
        {"tokenizer_config.json": {"added_tokens_decoder": {"99": {**START, "special": False}}}},
        {"tokenizer_config.json": {"extra_special_tokens": ["<x>", "<|start|>"]}},
        {"tokenizer_config.json": {"extra_special_tokens": {"image_token": "<|start|>"}, "audio_token": "<x>"}},
        {"tokenizer_config.json": {"additional_special_tokens": ["<|start|>"], "sep_token": "<x>", "bos_token": "<s>"}},
        {"tokenizer_config.json": {"mask_token": {"__type": "AddedToken", **START}, "add_bos_token": True}},
        {"special_tokens_map.json": {"additional_special_tokens": ["<|start|>"], "bos_token": START}},
        {"added_tokens.json": {"<|start|>": 99, "<x>": 98}, "special_tokens_map.json": {"sep_token": "<|start|>"}},
        {"tokenizer_config.json": {"added_tokens_decoder": {}}, "special_tokens_map.json": {"bos_token": "<x>"}},
    ],
    ids=str,
)
def test_tokens_that_a_folder_adds_elsewhere_are_tokens_as_in_transformers(files, tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **files.get("tokenizer_config.json", {})}
    for name, values in {**files, "tokenizer_config.json": settings, "config.json": {"model_type": "gpt2"}}.items():
        write(source / name, **values)
    details, folder = kept(source)
    ours = load_tokenizer(folder, details["tokenizer"])
    with quietly():
        theirs = transformers.AutoTokenizer.from_pretrained(source)
    for text in ("a<|start|> b", "<x>a</s>b<s>", "<|start|><x>"):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(RenderedText(text), longest=99) == ids
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}{{ eos_token }}"


@pytest.mark.parametrize(
    "place",
    [
        lambda folder: (folder / "chat_template.jinja").write_text(TEMPLATE),
        lambda folder: write(folder / "tokenizer_config.json", chat_template=TEMPLATE, eos_token="</s>"),
        lambda folder: write(
            folder / "tokenizer_config.json",
            chat_template=[5, {"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}],
            eos_token={"content": "</s>", "special": True},
        ),
    ],
    ids=["its own file", "a field", "one of several"],
)
def test_the_chat_template_is_kept_wherever_it_stands(place, tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    write(source / "special_tokens_map.json", bos_token="<s>")
    place(source)
    details, folder = kept(source)
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE
    assert details["special_tokens"]["bos_token"] == "<s>"
    assert details["special_tokens"].get("eos_token", "</s>") == "</s>"


PLAIN, TOOLED = (
    "  {{ messages[0].content }}\n\n",
    "T{{ tools[0].function.name }}{% for m in messages %}\n  {{ m }}{% endfor %}\n",
)
OWN = "{{ image_token }}{{ audio_token }}{{ eos_token }}{{ pad_token }}"
SCOPES = "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("stated", "files"),
    [
        ([{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": TOOLED}], {}),
        (
            [
                {"name": "tool_use", "template": TOOLED},
                {"name": "rag", "template": "{"},
                {"name": "default", "template": PLAIN},
            ],
            {},
        ),
        ({"default": PLAIN}, {}),
        ("old", {"chat_template.jinja": PLAIN}),
        ("old", {"chat_template.jinja": PLAIN, "additional_chat_templates/tool_use.jinja": TOOLED}),
        (None, {"additional_chat_templates/default.jinja": PLAIN}),
        (OWN, {}),
        (SCOPES, {}),
    ],
)
def test_a_chat_is_written_as_in_transformers_with_tools_and_without(stated, files, tmp_path):
    source = tmp_path / "theirs"
    (source / "additional_chat_templates").mkdir(parents=True)
    characters().save(str(source / "tokenizer.json"))
    own = {"image_token": "<img>", "extra_special_tokens": {"audio_token": "<sound>"}, "eos_token": "</s>"}
    write(source / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast", chat_template=stated, **own)
    write(source / "config.json", model_type="llama")
    for name, template in files.items():
        (source / name).write_text(template)
    details, folder = kept(source)
    template = create_environment().from_string((folder / "chat_template.jinja").read_text())
    with quietly():
        theirs = transformers.AutoTokenizer.from_pretrained(source)
    messages = [{"role": "user", "content": "hi"}]
    for tools in (None, [TOOL]):
        ours = template.render(messages=messages, tools=tools, **details["special_tokens"])
        assert ours == theirs.apply_chat_template(messages, tools=tools, tokenize=False)


def test_a_template_for_tools_alone_is_none(tmp_path):
    source = slow_folder(tmp_path / "theirs", "gpt2")
    write(source / "tokenizer_config.json", chat_template={"tool_use": TOOLED})
    assert not (kept(source)[1] / "chat_template.jinja").exists()


def test_a_chat_template_that_is_no_text_is_refused_with_its_path(tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    (source / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(ArtefactError, match=r"a chat template at .*chat_template\.jinja"):
        kept(source)


@pytest.mark.parametrize("content", ["{", "[" * 9999])
def test_a_broken_tokenizer_configuration_is_refused_with_its_path(content, tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    (source / "tokenizer_config.json").write_text(content)
    with pytest.raises(ArtefactError, match=r"JSON in .*tokenizer_config\.json"):
        kept(source)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{% if %}", "line 1"),
        ("a\n{% for m in messages %}", "line 2"),
        ("{{ messages | nothing }}", "nothing"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deep"),
        ("x" * (LONGEST_TEMPLATE + 1), "characters"),
    ],
    ids=["unparsable", "open", "unknown filter", "deep", "long"],
)
def test_a_chat_template_that_cannot_be_read_is_refused_at_import(template, fault, tmp_path):
    source = slow_folder(tmp_path / "theirs", "gpt2")
    (source / "chat_template.jinja").write_text(template)
    with pytest.raises(ArtefactError, match="a chat template that Jinja can read") as caught:
        kept(source)
    assert fault in caught.value.found


def test_nothing_of_a_chat_template_runs_while_it_is_imported(tmp_path):
    source = slow_folder(tmp_path / "theirs", "gpt2")
    (source / "chat_template.jinja").write_text("{% generation %}{{ 'a' * 10**10 }}{% endgeneration %}")
    kept(source)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"chat_template": 5}, "chat_template"),
        ({"chat_template": [{"name": ["x"], "template": "a"}, {"name": "default", "template": 1}]}, "chat_template"),
        ({"chat_template": "a", "bos_token": {"x": 1}}, "bos_token"),
        ({"chat_template": "a", "eos_token": 5}, "eos_token"),
    ],
    ids=str,
)
def test_a_malformed_configuration_of_a_tokenizer_is_refused_by_its_field(config, fault, tmp_path):
    source = tmp_path / "theirs"
    source.mkdir()
    characters().save(str(source / "tokenizer.json"))
    write(source / "tokenizer_config.json", **config)
    with pytest.raises(ArtefactError, match=f"a text as {fault}"):
        kept(source)
