# NVIDIA's Triton image with what the Python backend's models import, and what builds engines: serving/, clients/, export/
# and the light half of models/. No torch.
# Not built or run where this project's tests run: no Docker engine there.
ARG TRITON=26.07
FROM nvcr.io/nvidia/tritonserver:${TRITON}-py3

WORKDIR /attendant
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY models models
COPY export export
COPY serving serving
COPY clients clients
COPY quickstart quickstart
# numpy<2 comes from pyproject.toml: Triton's Python stub returns empty tensors under NumPy 2 (server #8301).
RUN pip install --no-cache-dir --constraint constraints.txt onnxruntime onnx cuda-bindings .
ENV PYTHONPATH=/attendant
# TensorRT's Python bindings, of exactly the version of the library that the image holds: they call it by position.
RUN version="$(python3 -c 'from serving.runtime.trt.this_machine import tensorrt_version; print(tensorrt_version())')" \
    && pip install --no-cache-dir --no-deps "tensorrt-cu13-bindings==${version}.*"
