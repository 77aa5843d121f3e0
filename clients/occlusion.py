"""What a classifier's answer rests on, found without gradients: blank a part of the image and see what the logits lose.

    map_k(p) = logit_k(image) − logit_k(image with the part p blanked)

It needs nothing from the model but logits. On the held-out digits it finds the parts that matter better than attention
does (docs/guides/playground.md).

Legend: B batch, P parts, K classes, h and w rows and columns of parts.
Source: Zeiler and Fergus 2014, "Visualizing and Understanding Convolutional Networks", section 4.2.
"""

import asyncio

import numpy as np

from clients.classify import Classifier
from clients.loads import loaded_anew
from clients.served_model import ServedModel
from clients.triton_client import Array

MOST_PARTS = 8
"""Rows or columns of parts: 64 parts are three batches of 32."""
BATCH_BYTES = 1 << 23
"""Of the images that are made and sent at once: a batch of large ones holds fewer than the model takes."""
_PATCHES = ("rollout", "received_1")


def grid_of(model: ServedModel) -> tuple[int, int]:
    """Rows and columns of the parts to blank: the patches of the model where it tells them, at most 8 × 8."""
    grids = (model.outputs[name] for name in _PATCHES if name in model.outputs)
    grid = next((grid for grid in grids if len(grid) == 2 and min(grid) > 0), (MOST_PARTS, MOST_PARTS))
    return min(grid[0], MOST_PARTS), min(grid[1], MOST_PARTS)


async def occlusion_maps(classifier: Classifier, pixels: Array) -> tuple[Array, Array]:
    """What each part of an image does for each class.

    Args:
        classifier: of the image; one batch after the other is made and sent.
        pixels: of one image, as :func:`clients.images.image_pixels` prepares it.

    Returns:
        Logits ``[K]`` and maps ``[K, h, w]``, float32.

    Raises:
        AttendantError: as the classifier raises.
        LoadingError: the model was loaded anew meanwhile.
    """
    model = classifier.model
    rows, columns = grid_of(model)
    step = max(1, min(model.max_batch, BATCH_BYTES // max(pixels.nbytes, 1)))
    count, logits, before = 1 + rows * columns, [], await classifier.load()
    for begin in range(0, count, step):
        numbers = range(begin, min(begin + step, count))
        images = await asyncio.to_thread(_blank_parts, pixels, numbers, (rows, columns), model)
        logits.append(await classifier.logits(images))
    if model != before.model or not before.lasts(await classifier.load(), len(logits)):
        raise loaded_anew(model)
    logits_BK = np.concatenate(logits)
    drops_KP = (logits_BK[:1] - logits_BK[1:]).T
    return logits_BK[0], drops_KP.reshape(-1, rows, columns)


def _blank_parts(pixels: Array, numbers: range, grid: tuple[int, int], model: ServedModel) -> Array:
    # Number 0 is the whole image.
    (rows, columns), in_bytes = grid, pixels.dtype == np.uint8
    height, width = pixels.shape[:2] if in_bytes else pixels.shape[-2:]
    images = np.repeat(pixels[None], len(numbers), axis=0)
    for number, image in zip(numbers, images, strict=True):
        if not number:
            continue
        row, column = divmod(number - 1, columns)
        down = slice(height * row // rows, height * (row + 1) // rows)
        across = slice(width * column // columns, width * (column + 1) // columns)
        if in_bytes:
            preprocessing = model.parameters["preprocessing"]
            mean_C = np.float32(preprocessing["mean"]) / np.float32(preprocessing["scale"])
            image[down, across] = np.asarray(np.round(mean_C), dtype=np.uint8)
        else:
            image[..., down, across] = 0  # what the mean colour of the training is, once it is prepared
    return images
