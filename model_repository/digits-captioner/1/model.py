"""Triton looks for this class here; its body is serving/triton/backends/caption.py."""
from serving.triton.backends.caption import TritonPythonModel as TritonPythonModel
