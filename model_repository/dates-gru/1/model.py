"""Triton looks for this class here; its body is serving/backends/translate.py."""
from serving.backends.translate import TritonPythonModel as TritonPythonModel
