# NVIDIA's Triton image with what the Python backend's models import: serving/, clients/ and the light half of models/.
# Not built or run where this project's tests run: no Docker engine there.
ARG TRITON=26.06
FROM nvcr.io/nvidia/tritonserver:${TRITON}-py3

WORKDIR /attendant
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY models models
COPY export export
COPY serving serving
COPY clients clients
COPY quickstart quickstart
# numpy<2 comes from pyproject.toml: Triton's Python stub returns empty tensors under NumPy 2 (server #8301).
RUN pip install --no-cache-dir --constraint constraints.txt onnxruntime .
ENV PYTHONPATH=/attendant
