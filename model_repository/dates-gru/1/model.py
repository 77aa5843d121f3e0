"""Triton looks for this class here; its body is serving/triton/backends/translate.py."""
from serving.triton.backends.translate import TritonPythonModel as TritonPythonModel
