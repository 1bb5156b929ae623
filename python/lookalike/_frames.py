"""The types that `dedupe` takes: how each gives its texts, and how rows of it are taken.

A type is known by the module that defines it, so none is imported here that the caller has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

ADDED = ("replaced_by", "distance", "similarity", "exact", "contained")
"""The columns of dropped rows that come to their own."""
_TAKES = (
    "a list of str, a dict of columns, a pyarrow Table or RecordBatch, a polars or pandas DataFrame, a "
    "datasets.Dataset, or an iterator of batches of one of these"
)


@dataclass(frozen=True)
class Added:
    """The columns of dropped rows that come to their own, and the column whose ids `replaced_by` has."""

    columns: dict[str, list[Any]]
    id: str | None


class Frame(Protocol):
    """Rows with columns."""

    @property
    def length(self) -> int:
        """The number of rows."""
        ...

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        ...

    def texts(self, column: str) -> Any:
        """The texts of a column, as the native module takes them."""
        ...

    def values(self, argument: str, column: str) -> list[Any]:
        """The values of a column, which an argument names."""
        ...

    def kept(self, rows: list[int]) -> Any:
        """These rows, in the type that came in."""
        ...

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        """These rows with more columns, in the type that came in. The first row of the frame is `first`."""
        ...


class Strings:
    """A list of str, or of images."""

    def __init__(self, data: Any) -> None:
        self._data: list[Any] = data
        self.length = len(data)
        self.names: list[str] = []

    def texts(self, column: str) -> Any:
        return self._data

    def values(self, argument: str, column: str) -> list[Any]:
        raise ValueError(f"{argument}: a list of str has no column {column!r}: give a dict of columns")

    def kept(self, rows: list[int]) -> Any:
        return [self._data[row] for row in rows]

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        names = list(added.columns)
        told = zip(rows, *added.columns.values(), strict=True)
        own = "text" if all(isinstance(self._data[row], str) for row in rows) else "image"
        return [
            {"row": first + row, own: self._data[row], **dict(zip(names, values, strict=True))}
            for row, *values in told
        ]


class _Columns:
    """What frames with named columns share."""

    def __init__(self, data: Any) -> None:
        self._data: Any = data

    @property
    def length(self) -> int:
        return len(self._data)

    @property
    def names(self) -> list[str]:
        raise NotImplementedError

    def _column(self, argument: str, column: str) -> Any:
        raise NotImplementedError

    def _checked(self, argument: str, column: str) -> Any:
        if column not in self.names:
            names = ", ".join(map(repr, self.names)) or "none"
            raise ValueError(f"{argument}: there is no column {column!r}; there are {names}")
        return self._column(argument, column)

    def texts(self, column: str) -> Any:
        taken = [name for name in ADDED if name in self.names]
        if taken:
            raise ValueError(
                f"data: the column {taken[0]!r} would be replaced by that of dropped rows: rename it first"
            )
        return self._checked("text", column)

    def values(self, argument: str, column: str) -> list[Any]:
        return list(self._checked(argument, column))

    def kept(self, rows: list[int]) -> Any:
        raise NotImplementedError

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        raise NotImplementedError


class Dict(_Columns):
    """A dict of columns of equal length."""

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"data: the columns have different lengths: {lengths}")
        self._length = next(iter(lengths.values()), 0)

    @property
    def length(self) -> int:
        return self._length

    @property
    def names(self) -> list[str]:
        return list(self._data)

    def _column(self, argument: str, column: str) -> Any:
        return self._data[column]

    def kept(self, rows: list[int]) -> Any:
        return {name: [column[row] for row in rows] for name, column in self._data.items()}

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        return {**self.kept(rows), **added.columns}


def _arrow_table(added: Added, id_type: Any) -> Any:
    """The added columns as a pyarrow Table. Without ids, `replaced_by` has numbers of rows."""
    import pyarrow as pa

    any_pa: Any = pa
    kinds = {
        "replaced_by": any_pa.uint32() if added.id is None else id_type,
        "distance": any_pa.uint32(),
        "similarity": any_pa.float64(),
        "exact": any_pa.bool_(),
        "contained": any_pa.float64(),
    }
    return any_pa.table({name: any_pa.array(own, kinds[name]) for name, own in added.columns.items()})


class Arrow(_Columns):
    """A pyarrow Table or RecordBatch."""

    @property
    def length(self) -> int:
        return self._data.num_rows

    @property
    def names(self) -> list[str]:
        return list(self._data.schema.names)

    def _column(self, argument: str, column: str) -> Any:
        return self._data.column(column)

    def values(self, argument: str, column: str) -> list[Any]:
        return self._checked(argument, column).to_pylist()

    def kept(self, rows: list[int]) -> Any:
        import pyarrow as pa

        any_pa: Any = pa
        return self._data.take(any_pa.array(rows, any_pa.uint32()))

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        frame = self.kept(rows)
        more = _arrow_table(added, None if added.id is None else self._data.schema.field(added.id).type)
        for name in more.schema.names:
            column = more.column(name)
            # A batch has arrays, and a table has chunks of them.
            column = column if hasattr(frame, "combine_chunks") else column.combine_chunks()
            frame = frame.append_column(name, column)
        return frame


class Polars(_Columns):
    """A polars DataFrame."""

    @property
    def names(self) -> list[str]:
        return list(self._data.columns)

    def _column(self, argument: str, column: str) -> Any:
        return self._data[column]

    def kept(self, rows: list[int]) -> Any:
        return self._data[rows] if rows else self._data.clear()

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        import polars as pl

        any_pl: Any = pl
        kinds = {
            "replaced_by": any_pl.UInt32 if added.id is None else self._data.schema[added.id],
            "distance": any_pl.UInt32,
            "similarity": any_pl.Float64,
            "exact": any_pl.Boolean,
            "contained": any_pl.Float64,
        }
        columns = [any_pl.Series(name, own, dtype=kinds[name]) for name, own in added.columns.items()]
        return self.kept(rows).with_columns(columns)


class Pandas(_Columns):
    """A pandas DataFrame. Rows keep their labels."""

    @property
    def names(self) -> list[str]:
        return list(self._data.columns)

    def _column(self, argument: str, column: str) -> Any:
        return self._data[column]

    def texts(self, column: str) -> Any:
        # Its values are strings of Python, or become such only once.
        values: Any = super().texts(column)
        missing = values.isna()
        return values.astype(object).where(~missing, None).tolist()

    def kept(self, rows: list[int]) -> Any:
        return self._data.iloc[rows]

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        return self.kept(rows).assign(**added.columns)


class Dataset(_Columns):
    """A datasets.Dataset."""

    @property
    def names(self) -> list[str]:
        return list(self._data.column_names)

    def _column(self, argument: str, column: str) -> Any:
        return self._data.select_columns([column]).with_format("arrow")[:].column(column)

    def values(self, argument: str, column: str) -> list[Any]:
        return self._checked(argument, column).to_pylist()

    def kept(self, rows: list[int]) -> Any:
        return self._data.select(rows)

    def dropped(self, rows: list[int], added: Added, first: int) -> Any:
        import datasets

        any_datasets: Any = datasets
        frame = self._data.select(rows)
        id_type = None if added.id is None else frame.features[added.id]()
        more = any_datasets.Dataset(_arrow_table(added, id_type))
        return any_datasets.concatenate_datasets([frame, more], axis=1)


def frame_of(data: Any) -> Frame | None:
    """The frame of an object; None if it is of no known type."""
    if isinstance(data, list):
        return Strings(data)
    if type(data) is dict:
        return Dict(data)
    for kind in type(data).__mro__:
        package, name = kind.__module__.partition(".")[0], kind.__name__
        adapter = _ADAPTERS.get((package, name))
        if adapter is not None:
            return adapter(data)
    return None


_ADAPTERS: dict[tuple[str, str], Callable[[Any], Frame]] = {
    ("pyarrow", "Table"): Arrow,
    ("pyarrow", "RecordBatch"): Arrow,
    ("polars", "DataFrame"): Polars,
    ("pandas", "DataFrame"): Pandas,
    ("datasets", "Dataset"): Dataset,
}


def batches_of(data: object) -> tuple[list[Frame], Callable[[list[Any]], Any]]:
    """The frames of the data, and what makes the result of the parts of each."""
    frame = frame_of(data)
    if frame is not None:
        return [frame], lambda parts: parts[0]
    if isinstance(data, Iterator):
        batches: list[Frame] = []
        parts: Iterator[Any] = data
        for number, batch in enumerate(parts):
            own = frame_of(batch)
            if own is None:
                raise TypeError(f"data: batch {number} is {_kind(batch)}; batches are {_TAKES}")
            if batches and type(own) is not type(batches[0]):
                raise TypeError(
                    f"data: batch {number} is {_kind(batch)}, and those before are not: give one type"
                )
            batches.append(own)
        return batches, lambda parts: parts
    raise TypeError(f"data: {_kind(data)} cannot be deduplicated; give {_TAKES}{_way(data)}")


def _kind(data: object) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}"


def _way(data: object) -> str:
    """How data of some types become data that are taken."""
    ways: Mapping[str, str] = {
        "LazyFrame": ": collect() it first",
        "Series": ": a column is list(column), or its frame and text=NAME",
        "ChunkedArray": ": a column is column.to_pylist(), or its table and text=NAME",
        "StringArray": ": a column is column.to_pylist(), or its table and text=NAME",
        "DatasetDict": ': name a split of it, such as data["train"]',
        "tuple": ": list(data) is one",
    }
    return ways.get(type(data).__name__, "")
