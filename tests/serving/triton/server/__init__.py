"""Tests of the real tritonserver."""
