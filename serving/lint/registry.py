"""Every rule, in the order in which reports give them: as the modules below have them."""

from types import ModuleType
from typing import Any

from serving.lint import answers, batching, command, configuration, files, sequences, states, vulnerabilities, warm_up
from serving.lint.rule import Rule


def _rules_of(*modules: ModuleType) -> tuple[Rule[Any], ...]:
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Rule))


FILE_RULES = (configuration.no_configuration, configuration.configuration)
"""Of a file that cannot be read: no other rule applies to such a model."""
MODEL_RULES = tuple(
    rule
    for rule in _rules_of(configuration, files, batching, sequences, states, answers, warm_up)
    if rule not in FILE_RULES
)
COMMAND_RULES = _rules_of(command, vulnerabilities)
