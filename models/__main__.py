"""Reference models in pure PyTorch: list them, look inside one, train the shipped ones again."""

import sys

from attendant.cli import run

if __name__ == "__main__":
    run(
        "python -m models",
        str(__doc__),
        {
            "list": "models.verbs:list_",
            "describe": "models.verbs:describe",
            "train": "models.verbs:train",
            "import": "models.verbs:import_",
            "explain": "models.verbs:explain",
        },
        sys.argv[1:],
    )
