"""One architecture a file, composed from layers."""
