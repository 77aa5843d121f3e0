# NVIDIA's Triton image with what the Python backend's models import, and what builds engines: serving/, clients/, export/
# and models/. Two targets:
#   light   everything on ONNX Runtime and TensorRT
#   torch   the same with torch and Triton's compiler: artefacts of `export torch`, and engines with plugins
# Not built or run where this project's tests run: no Docker engine there.
ARG TRITON=26.07
FROM nvcr.io/nvidia/tritonserver:${TRITON}-py3 AS light

WORKDIR /attendant
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY attendant attendant
COPY models models
COPY export export
COPY serving serving
COPY clients clients
COPY commands commands
# numpy<2 comes from pyproject.toml: Triton's Python stub returns empty tensors under NumPy 2 (server #8301).
RUN pip install --no-cache-dir --constraint constraints.txt onnxruntime onnx onnx-ir cuda-bindings .
ENV PYTHONPATH=/attendant
# TensorRT's Python bindings, of exactly the version of the library that the image holds: they call it by position. Not every
# patch level of the library has bindings of its own: then those of the same minor version, whose interface is the same.
ARG TENSORRT=11
RUN version="$(python3 -c 'from serving.runtime.tensorrt.this_machine import tensorrt_version; print(tensorrt_version())')" \
    && case "$version" in "${TENSORRT}".*) ;; *) echo "expected TensorRT ${TENSORRT}; found $version" >&2; exit 1 ;; esac \
    && minor="${version%.*}" \
    && { pip install --no-cache-dir --no-deps "tensorrt-cu13-bindings==${version}.*" \
      || { echo "no bindings of TensorRT $version: trying those of another $minor" >&2 \
        && pip install --no-cache-dir --no-deps "tensorrt-cu13-bindings==${minor}.*"; } \
      || { echo "no bindings of TensorRT $minor: choose an image, by TRITON, whose TensorRT has some" >&2; exit 1; }; }

FROM light AS torch
# The CUDA build, which brings the Triton compiler that it was made with; the kernels were proved with 3.9.0.
RUN pip install --no-cache-dir --constraint constraints.txt torch==2.13.0 safetensors \
    && python3 -c 'import torch, triton; print(torch.__version__, torch.version.cuda, triton.__version__)'
