"""The page docs/reference/lint-rules.md: every rule, with what happens, who says so and what to do."""

from collections.abc import Iterable
from typing import Any

from serving.lint.registry import COMMAND_RULES, FILE_RULES, MODEL_RULES
from serving.lint.rule import Rule

_INTRODUCTION = """\
# Lint: the traps of a Triton model repository

    attendant lint model_repository
    attendant lint model_repository --command "$(cat start.sh)"

reads every `config.pbtxt` of a repository, whoever wrote it, and names the traps in it: what is wrong, what happens,
who says so, and what to do. It starts nothing and loads nothing. It looks for what a server accepts; what a server
refuses at its start, it explains itself. The exit status is 1 where an error is found, and 0 with warnings alone;
`--json` prints the same for programs. `--command` checks a server's command line by the last rules too, and
`--server-version 2.51.0` names the known vulnerabilities of that server.

An **error** is a model that is never ready, answers wrongly or stalls; a **warning** is one that may. `core`, `server`
and the backends are the repositories of triton-inference-server. What a line says of them was read at core 73aad7c,
onnxruntime_backend 00fd3e8 and tensorrt_backend e2ef6d7, and not run unless it says measured. Every rule is tested with
a configuration that breaks it and one that keeps it (`tests/serving/lint/`). tritonserver 2.51 loads every model that
breaks one (`tests/end_to_end/test_lint.py`); `model-file` and `decoupled-backend` are not tried there.

`attendant lint --rules > docs/reference/lint-rules.md` wrote this page.
"""
_NOT_CHECKED = """\
## What is not checked

- **What the server refuses at its start**, and says why: fields that contradict each other, shapes, labels that are
  missing, ensembles whose tensors do not meet. Its log names the model and the field.
- **Tensors against the model's file.** Names, types and shapes of an ONNX graph or an engine are not read: the backend
  compares them when it loads the model. `attendant repository` derives them from the artefact's manifest.
- **Shared memory that a server does not allow.** Servers from 2026-04 on refuse clients' shared memory without
  `--allow-client-shm=true`; whether a client wants it is not in the repository.
- **Ragged batches** (`batch_input`, `batch_output`), custom batchers, rate limits, model agents, and all else that no
  rule names.
"""
_HEAD = ("rule", "severity", "what must hold", "what happens otherwise", "what to do", "source")


def lint_page() -> str:
    """The page as Markdown."""
    parts = (
        _INTRODUCTION,
        f"## Models\n\n{_table((*FILE_RULES, *MODEL_RULES))}",
        f"## The server's command line\n\n{_table(COMMAND_RULES)}",
        _NOT_CHECKED,
    )
    return "\n".join(parts)


def _table(rules: Iterable[Rule[Any]]) -> str:
    rows = [
        (f"`{rule.name}`", rule.severity, rule.statement, rule.consequence, rule.remedy, rule.source) for rule in rules
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (_HEAD, ("---",) * len(_HEAD), *rows))
