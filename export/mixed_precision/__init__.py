"""Anybody's ONNX file in half precision or int8, with the operators that measurably need float32 kept in it."""
