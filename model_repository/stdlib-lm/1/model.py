"""Triton looks for this class here; its body is serving/backends/generate.py."""
from serving.backends.generate import TritonPythonModel as TritonPythonModel
