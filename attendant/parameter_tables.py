"""The sampling parameters as tables in Markdown, for docs/reference/sampling-parameters.md."""

from attendant.param import LARGE, Param
from attendant.sampling_params import EARLY_STOPPING, LARGEST_SEED, PARAMS, default_of


def parameter_tables() -> str:
    """The parameters as tables in Markdown, one a group, as docs/reference/sampling-parameters.md has them."""
    groups: dict[str, list[str]] = {}
    for name, param in PARAMS.items():
        tensors = ", ".join(f"`{tensor}` {dtype}" for tensor, dtype in param.tensors.items())
        openai = f"`{param.openai}`" if param.openai else ""
        row = f"| `{name}` | {tensors} | {_range(name, param)} | {_default(name, param)} | {openai} | {param.help} |\n"
        groups.setdefault(param.group, []).append(row)
    head = "| parameter | tensor | range | default | OpenAI | meaning |\n|---|---|---|---|---|---|\n"
    return "\n".join(f"### {group}\n\n{head}{''.join(rows)}" for group, rows in groups.items())


def _range(name: str, param: Param) -> str:
    if name == "early_stopping":
        return ", ".join(f"{word} ({number})" for number, word in enumerate(EARLY_STOPPING))
    if param.ge is None and param.gt is None:
        counts = (f"at most {param.max_items}" if param.max_items else "", _length(param))
        return ", each ".join(filter(None, counts))
    low = f"above {param.gt:g}," if param.gt is not None else f"{param.ge:g}"
    large = {LARGE: "10⁹", float(LARGEST_SEED): "2⁶⁴ − 1"}
    high = param.most or large.get(float(param.le or 0), f"{param.le:g}")
    return f"{low} to {high}".replace("-", "−")


def _length(param: Param) -> str:
    return f"of at most {param.max_length} characters" if param.max_length else ""


def _default(name: str, param: Param) -> str:
    value = default_of(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return param.unset if value in (None, (), {}) else f"{value}".removesuffix(".0")
