"""transformers' TimeSformer with our weights: the same architecture in other people's code."""

import torch
from torch import Tensor
from transformers import TimesformerConfig, TimesformerForVideoClassification

from models.families.timesformer import TimeSformer
from models.layers.attention import MultiHeadAttention

_FORMS = {"divided": "divided_space_time", "joint": "joint_space_time", "space": "space_only"}
_PARTS = {
    "attention_residual.norm": "layernorm_before",
    "space_residual.norm": "layernorm_before",
    "time_residual.norm": "temporal_layernorm",
    "time_linear": "temporal_dense",
    "mlp_residual.norm": "layernorm_after",
    "mlp.expand": "intermediate.dense",
    "mlp.contract": "output.dense",
}
_ATTENTIONS = {"attention": "attention", "space_attention": "attention", "time_attention": "temporal_attention"}


def stranger_from_ours(ours: TimeSformer, norm_eps: float = 1e-6) -> TimesformerForVideoClassification:
    """A classifier that must compute what ours computes; of the form ``space`` up to the average of the frames."""
    theirs = TimesformerForVideoClassification(_their_config(ours.config, norm_eps))
    theirs.to(ours.class_token.dtype).eval().requires_grad_(False)
    embeddings = theirs.timesformer.embeddings
    embeddings.cls_token.copy_(ours.class_token)
    embeddings.position_embeddings.copy_(ours.positions.table)
    if ours.times is not None:
        embeddings.time_embeddings.copy_(ours.times.table)
    embeddings.patch_embeddings.projection.load_state_dict(ours.patches.projection.state_dict())
    for our_block, their_block in zip(ours.blocks, theirs.timesformer.encoder.layer, strict=True):
        _copy_block(dict(our_block.named_modules()), their_block)
    theirs.timesformer.layernorm.load_state_dict(ours.norm.state_dict())
    theirs.classifier.load_state_dict(ours.head.state_dict())
    return theirs


def logits_by_stranger(theirs: TimesformerForVideoClassification, videos: Tensor) -> Tensor:
    """Their logits; of the form ``space``, where theirs ends with one row a frame, as the authors' code goes on.

    That code averages the tokens of the frames before the last normalisation; transformers leaves the average out.
    """
    if theirs.config.attention_type != "space_only":
        return theirs(pixel_values=videos).logits
    hidden = theirs.timesformer.encoder(theirs.timesformer.embeddings(videos))[0]
    averaged = torch.stack([video.mean(0) for video in hidden.split(videos.shape[1])])
    return theirs.classifier(theirs.timesformer.layernorm(averaged)[:, 0])


def _copy_block(ours, theirs):
    for our_name, their_name in _PARTS.items():
        if our_name in ours:
            theirs.get_submodule(their_name).load_state_dict(ours[our_name].state_dict())
    for our_name, their_name in _ATTENTIONS.items():
        if our_name in ours:
            _copy_attention(ours[our_name], theirs.get_submodule(their_name))


def _copy_attention(ours: MultiHeadAttention, theirs) -> None:
    thirds = (ours.query, ours.key, ours.value)
    theirs.attention.qkv.weight.copy_(torch.cat([third.weight for third in thirds]))
    theirs.attention.qkv.bias.copy_(torch.cat([third.bias for third in thirds]))
    theirs.output.dense.load_state_dict(ours.output.state_dict())


def _their_config(config, norm_eps):
    return TimesformerConfig(
        num_frames=config.frames,
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_channels=config.channels,
        num_labels=config.classes,
        attention_type=_FORMS[config.attention],
        num_hidden_layers=config.layers,
        hidden_size=config.width,
        num_attention_heads=config.heads,
        intermediate_size=config.mlp_width,
        layer_norm_eps=norm_eps,
        attn_implementation="eager",
    )
