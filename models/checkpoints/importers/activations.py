"""What Hugging Face calls the activations that we have.

``gelu_fast`` and ``quick_gelu`` are other functions, and so refused.
"""

from models.layers.mlp import Activation

ACTIVATION_NAMES: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
