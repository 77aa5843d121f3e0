import subprocess
import sys

from commands.quickstart.showcase import showcases
from commands.quickstart.stages import MODELS
from tests.conftest import ROOT

FIRST_WORDS = """
import sys
import commands.quickstart.__main__
from commands.quickstart import stages
def announce(number, title):
    print(number, title, [name for name in ("torch", "numpy", "grpc", "onnx") if name in sys.modules])
    sys.exit()
stages._announce = announce
stages.run_stages(None, None, 0)
"""


def test_every_model_that_is_exported_is_asked():
    assert tuple(model.name for model in showcases(1)) == MODELS


def test_the_first_stage_is_announced_before_anything_is_imported_that_takes_long():
    done = subprocess.run([sys.executable, "-c", FIRST_WORDS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "1 export digits-vit, a Vision Transformer, from PyTorch to ONNX []\n"
