"""Deduplication on Ray Data: the same kept documents as on one machine, for any number of workers.

>>> import lookalike.ray  # doctest: +SKIP
>>> ds = ray.data.read_parquet("corpus/")  # doctest: +SKIP
>>> result = lookalike.ray.dedupe(ds, id="url", keep="longest")  # doctest: +SKIP
>>> result.kept.write_parquet("unique/")  # doctest: +SKIP
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

from . import _engines
from ._engines import Deduplicated

__all__ = ["Deduplicated", "dedupe"]


class _Ray:
    """Ray's operations on Datasets."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def each(self, rows: Any, step: _engines.Step, schema: Any) -> Any:
        return rows.map_batches(_Typed(step, schema), batch_format="pyarrow", batch_size=None)

    def whole(self, rows: Any, step: _engines.Step, schema: Any) -> Any:
        # Without a size of batches, a batch is a block.
        return self.each(rows, step, schema)

    def grouped(self, rows: Any, key: str, step: _engines.Step, schema: Any) -> Any:
        return self.each(rows.repartition(self._partitions, keys=[key]), step, schema)

    def sorted(self, rows: Any, column: str) -> Any:
        return rows.sort(column)

    def join(self, rows: Any, others: Any, on: str, how: Literal["inner", "left_anti"]) -> Any:
        return rows.join(others, how, self._partitions, on=(on,))

    def union(self, rows: Any, others: Any) -> Any:
        return rows.union(others)

    def select(self, rows: Any, columns: dict[str, str]) -> Any:
        return rows.map_batches(_Selected(columns), batch_format="pyarrow", batch_size=None)

    def keep(self, rows: Any) -> Any:
        return rows.materialize()

    def table(self, rows: Any) -> Any:
        import ray

        any_ray: Any = ray
        pa = _engines.arrow()
        tables = [any_ray.get(ref) for ref in rows.to_arrow_refs()]
        filled = [table for table in tables if table.num_columns]
        return pa.concat_tables(filled or tables)

    def rows(self, table: Any) -> Any:
        import ray.data

        any_data: Any = ray.data
        return any_data.from_arrow(table)


class _Typed:
    """A step whose result has a schema also if it has no rows. Blocks without rows may lack their columns."""

    def __init__(self, step: _engines.Step, schema: Any) -> None:
        self._step = step
        self._schema = schema

    def __call__(self, table: Any) -> Any:
        if table.num_rows == 0:
            return self._schema.empty_table()
        return self._step(table).select(self._schema.names).cast(self._schema)


class _Selected:
    """Some columns under new names."""

    def __init__(self, columns: dict[str, str]) -> None:
        self._columns = columns

    def __call__(self, table: Any) -> Any:
        return table.select(list(self._columns)).rename_columns(list(self._columns.values()))


def dedupe(
    ds: Any,
    *,
    text: str = "text",
    id: str = "id",
    keep: str = "first",
    profile: str = "minhash-copies",
    k: int | None = None,
    threshold: float | None = None,
    check: float | None = None,
    weights: str | PathLike[str] | None = None,
    clusters: Literal["greedy", "linked"] = "greedy",
    partitions: int | None = None,
    threads: int | None = None,
) -> Deduplicated[Any]:
    """Removes near-duplicates of a `ray.data.Dataset`, and gives two of them: `kept` and `dropped`.

    Keeps what `lookalike.dedupe` keeps of the same rows in the order of their ids, whatever the number of
    workers and blocks. The column `id` has a different value in each row; `keep="first"` is the least one.
    The other arguments are those of `lookalike.dedupe`. `partitions` is the number of parts of a shuffle, by
    default two for each processor. `threads` is for the decision, on the driver.

    It needs ray with `ray[data]` and, for joins, polars. Ids are numbers or strings. The work is done during
    the call. The driver holds the prints of the texts that are near others, some 300 bytes each; with a
    profile of hashes it decides about all rows.

    Raises ValueError that names the argument, and what to give instead.

    >>> import lookalike.ray, ray  # doctest: +SKIP
    >>> rows = [{"id": n, "text": text} for n, text in enumerate(texts)]  # doctest: +SKIP
    >>> result = lookalike.ray.dedupe(ray.data.from_items(rows), keep="longest")  # doctest: +SKIP
    >>> result.kept.count(), result.dropped.take(1)[0]["replaced_by"]  # doctest: +SKIP
    (2, 0)
    """
    options = _engines.Options(text, id, keep, profile, k, threshold, check, weights, clusters)
    read = options.checked(list(ds.schema().names))
    engine = _Ray(partitions or _processors())
    schema = ds.schema().base_schema
    types = {name: schema.field(name).type for name in schema.names}
    value = None if options.value is None else types[options.value]
    rows = ds.map_batches(_Read(read, options.value), batch_format="pyarrow", batch_size=None)
    found = _engines.run(engine, rows, options, _engines.Schemas(types[id], value), threads)
    return _engines.divided(engine, ds, id, found)


class _Read:
    """The columns that are read, under the names of the steps."""

    def __init__(self, columns: dict[str, str], value: str | None) -> None:
        self._columns = columns
        self._value = value

    def __call__(self, table: Any) -> Any:
        pa = _engines.arrow()
        own = {name: table.column(column) for column, name in self._columns.items()}
        own["text"] = own["text"].cast(pa.string())
        if self._value is not None:
            own["value"] = table.column(self._value)
        return pa.table(own)


def _processors() -> int:
    import ray

    any_ray: Any = ray
    return max(2, 2 * int(any_ray.cluster_resources().get("CPU", 1)))
