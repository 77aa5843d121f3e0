"""The numpy that the Python backend of Triton 2.51 can use.

With numpy 2 its stub answers OK with empty tensors (triton-inference-server/server#8301, pytriton#93).
"""

from attendant.errors import MachineError

FIRST_REFUSED_MAJOR = 2


def check_numpy(version: str) -> None:
    """Refuse a numpy with which the wheel's server would return empty outputs with status OK.

    Raises:
        MachineError: the version is 2 or newer.
    """
    if int(version.partition(".")[0]) >= FIRST_REFUSED_MAJOR:
        remedy = 'pip install "numpy<2": with numpy 2 this tritonserver answers OK with empty tensors'
        raise MachineError("numpy older than 2 beside tritonserver 2.51", f"numpy {version}", remedy)
