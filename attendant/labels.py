"""What the classes of a model are called: texts of one line each, for Triton reads a file with one label a line."""


def label_fault(labels: object) -> str:
    """What is no list of labels, or no label among them; empty where each is one."""
    if not isinstance(labels, list):
        return repr(labels)[:100]
    return next((repr(label)[:100] for label in labels if not _is_label(label)), "")


def _is_label(label: object) -> bool:
    return isinstance(label, str) and len(f"{label}.".splitlines()) == 1
