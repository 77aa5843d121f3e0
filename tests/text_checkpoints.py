"""Two checkpoints with random weights and real tokenizers: a Llama that continues texts, a BERT that embeds them."""

from dataclasses import replace

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from attendant.tokenizer import TOKENIZER_NAME
from models.checkpoints.file_names import CHAT_TEMPLATE_NAME
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.conftest import LANGUAGE_MODEL, TEXT_ENCODER
from tests.models.agreement import randomised

CAPACITY, LONGEST = 40, 24
PROMPT, OTHER_PROMPT = "the cat sat on the", "a dog ate the café's naïve fish"
CHAT_TEMPLATE = "<s>{% for message in messages %}{{ message.role[0] }}:{{ message.content }}</s>{% endfor %}a:"
STOPS_AFTER = 6  # tokens of the answer to PROMPT, which an end token follows
SENTENCES = [
    "the cat sat on the mat, and the dog ate the fish",
    "a naïve café in Köln serves fish & chips for 5 €",
    "what is attention? all you need: queries, keys and values",
    "日本語のテキスト 🙂 and an emoji",
]


def write_language_model(folder, name=LANGUAGE_MODEL, template=CHAT_TEMPLATE, special="</s>", added=(), **changes):
    """A tiny Llama behind a byte-level BPE that begins every text with <s>; its answer to PROMPT ends with a stop."""
    tokenizer = byte_level_bpe(special=special)
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in added])
    settings = {
        "vocabulary_size": tokenizer.get_vocab_size(),
        "max_length": CAPACITY,
        "head_size": 8,  # ONNX Runtime's own attention takes no smaller one
        "mlp_width": 46,  # with which it does not repeat itself
    }
    config = replace(PRESETS["llama-tiny"].config, **(settings | changes))
    model = _random("decoder", config)
    answer = eager_greedy(model, tokenizer.encode(PROMPT).ids, STOPS_AFTER + 1)
    example = {
        "inputs": {"text": PROMPT, "max_tokens": STOPS_AFTER},
        "answer": tokenizer.decode(answer[:STOPS_AFTER]),
    }
    details = {"end_tokens": [answer[STOPS_AFTER]]}
    written = _written(folder, name, "decoder", model, tokenizer, details, example)
    (written / CHAT_TEMPLATE_NAME).write_text(template)
    return written


def write_text_encoder(folder, **changes):
    """A tiny BERT behind a WordPiece that puts [CLS] and [SEP] around every text."""
    tokenizer = word_piece()
    settings = {"vocabulary_size": tokenizer.get_vocab_size(), "max_length": LONGEST}
    config = replace(PRESETS["bert-tiny"].config, **(settings | changes))
    model = _random("encoder", config)
    _, pooled = eager_embedding(model, tokenizer.encode(PROMPT).ids)
    example = {"inputs": {"text": PROMPT}, "answer": pooled[:8].tolist()}
    return _written(folder, TEXT_ENCODER, "encoder", model, tokenizer, {}, example)


@torch.no_grad()
def eager_greedy(model, prompt, count, end=()):
    """The most probable next tokens by the full forward pass, without a cache; an end token is not among them."""
    tokens = list(prompt)
    for _ in range(count):
        token = int(model(torch.tensor([tokens]))[0, -1].argmax())
        if token in end:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


@torch.no_grad()
def eager_embedding(model, token_ids):
    """The hidden vectors ``[T, E]`` and the pooled one ``[E]`` of one text, alone and without padding."""
    ids = torch.tensor([token_ids])
    hidden, pooled = model(ids, torch.ones_like(ids, dtype=torch.bool), torch.zeros_like(ids))
    return hidden[0].numpy(), pooled[0].numpy()


def _random(family, config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return randomised(FAMILIES[family].build(config), torch.float32)


def _written(folder, name, family, model, tokenizer, details, example):
    checkpoint = Checkpoint(name=name, family=FAMILIES[family], model=model, details=details, example=example)
    save_checkpoint(checkpoint, folder)
    tokenizer.save(str(folder / TOKENIZER_NAME))
    return folder


def byte_level_bpe(sentences=SENTENCES, special="</s>"):
    """GPT-2's and Llama 3's kind: every byte has a token, so that every text does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>", special], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


def word_piece():
    """BERT's kind: words, and parts of words behind ##."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
