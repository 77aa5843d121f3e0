"""Triton looks for this class here; its body is serving/triton/backends/generate.py."""
from serving.triton.backends.generate import TritonPythonModel as TritonPythonModel
