"""The names of tensors on which more than one room relies, and the request that every text model takes.

Text tensors are named as TensorRT-LLM names them, so that Triton's own OpenAI front end and the clients of others fit.
"""

from attendant.signature import TensorSpec

PIXELS = "pixels"
LOGITS = "logits"

HEIGHT, WIDTH = "height", "width"  # the sides of an image, where they vary
POSITIONS = "positions"  # of the grid that such an image becomes

EXPLAINED = "explained"  # the graph that also shows what it attends to
PREFILL = "prefill"  # the graph that reads prompts in another precision than the decoder's, and scores nothing
EXPLAIN = "explain"  # the parameter by which a request asks for that
CANCEL_KEY = "cancel_key"  # the parameter with the secret that cancels a request; without one, only its own stream can
CANCEL = "cancel"  # the parameter that cancels the request of the given key
HEALTH = "health"  # the parameter that asks how the engine is doing, and if it knows the requests of the given keys
HEALTH_SEPARATOR = ","  # of such keys
PARSE_SPECIAL = "parse_special"  # the parameter that has special tokens in texts to embed read as such
RENDERED = "rendered"  # the parameter that says that a prompt was made by a chat template
ALIGNMENT = "alignment"
CROSS_ATTENTION, SELF_ATTENTION = "cross_attention", "self_attention"
TOKEN_TEXTS, SOURCE_TEXTS = "token_texts", "source_texts"  # what stands at the two sides of an alignment

TEXT_INPUT = "text_input"
INPUT_IDS = "input_ids"
MAX_TOKENS = "max_tokens"
STREAM = "stream"
TEXT_OUTPUT = "text_output"
FINISH_REASON = "finish_reason"
OUTPUT_IDS = "output_ids"
CANDIDATE = "sequence_index"
LOG_PROBS = "output_log_probs"
TOP_IDS, TOP_LOG_PROBS = "top_ids", "top_log_probs"
TOKEN_BYTES, TOP_BYTES = "token_bytes", "top_token_bytes"  # of the tokens whose log-probabilities are said
TEXT_OFFSETS = "text_offset"  # of each of these tokens, in characters of the text of the whole answer
PROMPT_TOKENS = "num_prompt_tokens"  # of a response: how many of its tokens are the prompt's, in front
SCORE = "cum_log_probs"
INPUT_TOKENS, OUTPUT_TOKENS = "num_input_tokens", "num_output_tokens"
CACHED_TOKENS = "num_cached_tokens"  # how many of the input's the prefix cache held

POOLED = "pooled"
HIDDEN = "hidden"
TOKEN_MASK, TOKEN_IDS = "token_mask", "token_ids"  # of texts that are embedded

TEXT_REQUEST = (TensorSpec(name=TEXT_INPUT, dtype="string", axes=(1,)),)
IDS_REQUEST = (TensorSpec(name=INPUT_IDS, dtype="int32", axes=("tokens",)),)


TEXT_RESPONSE = (
    TensorSpec(name=TEXT_OUTPUT, dtype="string", axes=(1,)),
    TensorSpec(name=FINISH_REASON, dtype="string", axes=(1,)),
    TensorSpec(name=OUTPUT_IDS, dtype="int32", axes=("tokens",)),
    TensorSpec(name=CANDIDATE, dtype="int32", axes=(1,)),
    TensorSpec(name=LOG_PROBS, dtype="float32", axes=("tokens",)),
    TensorSpec(name=TOP_IDS, dtype="int32", axes=("tokens", "top")),
    TensorSpec(name=TOP_LOG_PROBS, dtype="float32", axes=("tokens", "top")),
    TensorSpec(name=TOKEN_BYTES, dtype="string", axes=("tokens",)),
    TensorSpec(name=TOP_BYTES, dtype="string", axes=("tokens", "top")),
    TensorSpec(name=TEXT_OFFSETS, dtype="int32", axes=("tokens",)),
    TensorSpec(name=PROMPT_TOKENS, dtype="int32", axes=(1,)),
    TensorSpec(name=SCORE, dtype="float32", axes=(1,)),
    TensorSpec(name=INPUT_TOKENS, dtype="int32", axes=(1,)),
    TensorSpec(name=OUTPUT_TOKENS, dtype="int32", axes=(1,)),
    TensorSpec(name=CACHED_TOKENS, dtype="int32", axes=(1,)),
)
