"""The bodies of Triton's Python-backend models; ``model.py`` in the repository imports them by name."""
