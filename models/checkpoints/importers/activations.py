"""What Hugging Face calls the activations that we have.

``gelu_fast`` and ``gelu_accurate`` spell the approximation by tanh with its constants in decimals.
"""

from models.layers.mlp import Activation

ACTIVATION_NAMES: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "silu": "silu",
    "swish": "silu",
}
