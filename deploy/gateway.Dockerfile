# The HTTP gateway: attendant/, clients/ and serving/gateway. No torch, no ONNX Runtime, no Triton.
# Not built or run where this project's tests run: no Docker engine there.
FROM python:3.11-slim

WORKDIR /attendant
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY attendant attendant
COPY models models
COPY export export
COPY serving serving
COPY clients clients
COPY commands commands
RUN pip install --no-cache-dir --constraint constraints.txt '.[gateway]' && useradd --no-create-home --uid 10001 --user-group gateway
ENV PYTHONPATH=/attendant
USER gateway
