"""An image as characters."""

import numpy as np

from serving.runtime.base import Array

_SHADES = " .:-=+*#%@"


def picture(image: Array) -> list[str]:
    """The rows of a grey image ``[H, W]`` from 0 to 1, two characters a pixel."""
    shades = (np.clip(image, 0, 1) * (len(_SHADES) - 1)).round().astype(int)
    return ["".join(_SHADES[shade] * 2 for shade in row) for row in shades]
