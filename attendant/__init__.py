import os
import sys

# ONNX Runtime and OpenVINO tell their makers who uses them and for what, unless they are kept from it before they are
# imported: the one with the paths, names and errors of graphs, and both with files in the user's home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251  a setting of the library's
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # as if it were not installed
