"""Who may ask the gateway: the options that it has by itself and beside a Triton."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Who may ask the gateway.

    Attributes:
        keys: file of API keys, see `attendant keys`; without one, every request is served.
        cors: origins whose pages may ask; none by default.
        allowed_hosts: names in Host by which it may be asked beside its address, as a proxy in front is; * is any.
    """

    keys: Path | None = None
    cors: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
