"""Numerics of the kernels in Triton's interpreter.

Triton decides when it is imported whether it compiles or interprets, so that these tests have processes of their own:
test_interpreted.py starts them, and so does ``TRITON_INTERPRET=1 pytest tests/models/kernels/interpreted``.
"""

from models.kernels.interpreter import interprets

collect_ignore_glob = [] if interprets() else ["test_*.py"]
