"""Triton looks for this class here; its body is serving/backends/classify.py."""
from serving.backends.classify import TritonPythonModel as TritonPythonModel
