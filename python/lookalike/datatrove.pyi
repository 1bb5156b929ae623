"""The types of the steps for datatrove, which has none."""

from os import PathLike
from typing import Any, Literal

class MinhashSignatures:
    output_folder: Any
    config: Any
    profile: str
    name: str
    def __init__(
        self, output_folder: Any, config: Any = None, *, profile: str = "minhash-copies"
    ) -> None: ...
    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None: ...

def stages(
    reader: Any,
    folder: Any,
    after: list[Any],
    *,
    tasks: int,
    parts: int | None = None,
    id: str = "id",
    keep: str = "first",
    profile: str = "minhash-copies",
    k: int | None = None,
    threshold: float | None = None,
    check: float | None = None,
    weights: str | PathLike[str] | None = None,
    clusters: Literal["greedy", "linked"] = "greedy",
    exclusion_writer: Any = None,
) -> list[tuple[list[Any], int]]: ...
