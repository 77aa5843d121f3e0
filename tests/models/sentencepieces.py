"""Real, tiny SentencePiece models, trained in a few milliseconds."""

import functools
import io
import json

import sentencepiece

SENTENCES = (
    "The house is small.",
    "A small house by the sea is a fine thing.",
    "Three cats and 2 dogs sat on the mat, and 1 fox!",
    "The quick brown fox jumps over the lazy dog while the rain falls.",
    "Das Haus ist klein.",
    "Drei Katzen und 2 Hunde sitzen auf der Matte.",
)


@functools.cache
def sentencepiece_model(kind="unigram", size=110, **options):
    """The bytes of a model of that kind, about that many pieces large."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces_of(model):
    """Every piece of a model, in its own order."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def write_marian_files(folder, languages=(">>de<<",), leave_out=()):
    """``source.spm``, ``target.spm`` and the one ``vocab.json`` for both, as OPUS-MT models have them."""
    source, target = sentencepiece_model(), sentencepiece_model(size=90, seed_sentencepiece_size=500)
    pieces = dict.fromkeys([*pieces_of(source), *pieces_of(target)])
    ordered = ["</s>", "<unk>", *(piece for piece in pieces if piece not in ("</s>", "<unk>", "<s>", *leave_out))]
    vocabulary = {piece: number for number, piece in enumerate([*ordered, *languages, "<pad>"])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return vocabulary
