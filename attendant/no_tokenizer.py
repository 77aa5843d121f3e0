"""What stands in the place of a tokenizer where a language model has none: token ids come and go, and no text does."""

from collections.abc import Sequence

from attendant.errors import InputError

TOKEN_IDS_ONLY = "token_ids_only"  # noqa: S105  (the parameter of ``config.pbtxt`` that says so of a model)
NOTE = "no tokenizer: it is served for token ids alone"


class NoTokenizer:
    """The tokenizer of a model that has none."""

    byte_tokens = frozenset[int]()

    def encode(self, text: str, longest: int) -> list[int]:
        """Refuse a text.

        Raises:
            InputError: always.
        """
        raise no_text("a text")

    def offsets(self, text: str) -> list[int]:
        """None."""
        return []

    def decode(self, token_ids: Sequence[int]) -> str:
        """No text."""
        return ""

    def token_bytes(self, token: int) -> bytes:
        """No bytes."""
        return b""

    def most_characters(self, longest: int) -> int:
        """As many as there may be tokens: :meth:`encode` refuses what is shorter, too."""
        return longest


def no_text(found: str) -> InputError:
    """The refusal of a request that needs a tokenizer."""
    remedy = 'send `"prompt": [1, 2, 3]` over HTTP, input_ids over gRPC, or `attendant generate --token-ids 1 2 3`'
    return InputError("token ids, as this model has no tokenizer", found, remedy)
