"""Triton looks for this class here; its body is serving/triton/backends/classify.py."""
from serving.triton.backends.classify import TritonPythonModel as TritonPythonModel
