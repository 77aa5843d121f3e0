"""Artefacts behind Triton: how they are executed, laid out, served and stopped."""
