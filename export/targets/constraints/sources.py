"""Who says what, in the words that reports print."""

TABLE = "onnx-tensorrt docs/operators.md, the table of TensorRT 11.2"
CACHE = "TensorRT's operator documentation, KVCacheUpdate; NvInfer.h"
STRONG = "TensorRT's migration guide from 10 to 11: strongly typed networks"
QUANTIZE_LAYER = "TensorRT 11, NvInfer.h, IQuantizeLayer and IDequantizeLayer"
ORT = "ONNX Runtime 1.31.1, measured"
OPENVINO = "OpenVINO 2026.4.1, measured"
