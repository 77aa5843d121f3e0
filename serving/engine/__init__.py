"""From runners to answers: decoding loops that know nothing of Triton."""
