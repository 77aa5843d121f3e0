#!/bin/sh
# Make the environments of the peers under build/peers/: benchmarks/peers/environment.sh [PYTHON]
# onnxruntime-genai's builder needs transformers 5, and optimum-intel, which makes OpenVINO's graphs, needs 4; beside
# torchvision, which timm needs, transformers imports no model.
# llama.cpp is compiled for this processor, which takes some ten minutes of two cores.
set -eu
python=${1:-python3.11}
cd "$(dirname "$0")/../.."
mkdir -p build/peers

install() {
    place=build/peers/$1
    shift
    test -x "$place/bin/python" || "$python" -m venv "$place"
    # torch first and alone: a later requirement on it then finds the CPU build.
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 "$@"
}

install modern numpy==1.26.4 transformers==5.23.0 onnx==1.23.2 onnx-ir==1.1.0 onnxruntime==1.31.1 \
    onnxruntime-genai==0.18.0 ctranslate2==4.8.5 openvino==2026.4.1 openvino-genai==2026.4.1 nncf==3.4.0
install optimum transformers==4.57.6 optimum==2.1.0 optimum-intel==1.27.0 openvino==2026.4.1 nncf==3.4.0
install timm numpy==1.26.4 torchvision==0.28.0 timm==1.0.31 openvino==2026.4.1 nncf==3.4.0
CMAKE_ARGS="-DGGML_NATIVE=ON" install llamacpp numpy==1.26.4 transformers==5.23.0 gguf==0.19.0 llama-cpp-python==0.3.36
