"""Triton looks for this class here; its body is serving/backends/caption.py."""
from serving.backends.caption import TritonPythonModel as TritonPythonModel
