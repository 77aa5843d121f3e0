import numpy as np

from commands.quickstart.pictures import picture


def test_ink_is_dark_and_paper_is_blank():
    image = np.zeros((2, 3))
    image[0, 0], image[1, 2] = 1, 0.5
    assert picture(image) == ["@@    ", "    =="]
