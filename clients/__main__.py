"""Ask a Triton server over gRPC.

    attendant health                                              is every model well?
    attendant classify docs/examples/three.png                    an image → labels
    attendant caption photo.jpg                                   an image → what it shows, token by token
    attendant translate 3rd of march 1997                         a text → another text, token by token
    attendant generate Once upon a time                           a prompt → what comes next, token by token
    attendant embed "a cat sat" "the cat lay"                     texts → vectors, and how alike they are
    attendant predict request.json                                tensors → tensors, by a model of your own
    attendant explain three.png --model digits-vit --out why.npz  what an answer was read off
    attendant load run docs/examples/load-run.toml                how fast a server answers, and whether rightly

An address is all that a client has to be told (--server, else 127.0.0.1:8001); --model is needed only where a server
has more than one model for a task. Texts that are not given after the verb are read from standard input, one a line.
"""

import sys

from attendant.cli import Group, run
from attendant.tasks import TASKS

if __name__ == "__main__":
    run(
        "python -m clients",
        str(__doc__),
        {
            "health": "clients.verbs:health",
            **{task.name: task.verb for task in TASKS.values() if task.verb},
            "explain": "clients.verbs:explain",
            "load": Group(
                "Load tests of a server.",
                {
                    "run": "clients.load.verbs:run",
                    "report": "clients.load.report_verbs:report",
                    "sweep": "clients.load.report_verbs:sweep",
                    "compare": "clients.load.report_verbs:compare",
                },
            ),
        },
        sys.argv[1:],
    )
