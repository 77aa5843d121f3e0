"""Which architectures exist: those of the files in ``models/families`` that define a ``FAMILY``."""

from importlib import import_module
from pkgutil import iter_modules

from attendant.errors import unknown_name
from models import families
from models.families.family import Family


def find_families() -> dict[str, Family]:
    """Name → family, of every file that has one."""
    modules = [import_module(f"{families.__name__}.{module.name}") for module in iter_modules(families.__path__)]
    return {module.FAMILY.name: module.FAMILY for module in modules if hasattr(module, "FAMILY")}


FAMILIES = find_families()


def family_named(name: str) -> Family:
    """The family of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise unknown_name("family", name, FAMILIES, f"the families are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[name]
