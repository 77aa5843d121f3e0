"""Artefacts behind Triton: lay them out as a model repository, serve it, and measure what that takes."""

import sys

from attendant.cli import run

if __name__ == "__main__":
    run(
        "python -m serving",
        str(__doc__),
        {
            "repository": "serving.verbs:repository",
            "profile": "serving.verbs:profile",
            "plan": "serving.capacity.verb:plan",
            "engines": "serving.verbs:engines",
            "lint": "serving.verbs:lint",
            "up": "serving.verbs:serve",
            "gateway": "serving.gateway.verbs:gateway",
            "keys": "serving.gateway.verbs:keys",
            "alone": "serving.verbs:offline",
        },
        sys.argv[1:],
    )
