"""Deduplication on Spark: the same kept documents as on one machine, for any number of executors.

>>> import lookalike.spark  # doctest: +SKIP
>>> result = lookalike.spark.dedupe(spark.read.parquet("corpus/"), id="url", keep="longest")  # doctest: +SKIP
>>> result.kept.write.parquet("unique/")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, Literal

from . import _engines
from ._engines import Deduplicated

__all__ = ["Deduplicated", "dedupe"]


class _Spark:
    """Spark's operations on DataFrames."""

    def __init__(self, session: Any, id_type: Any) -> None:
        self._session = session
        self._id_type = id_type

    def each(self, rows: Any, step: _engines.Step, schema: Any) -> Any:
        return rows.mapInArrow(_of_batches(step), self._schema(schema))

    def whole(self, rows: Any, step: _engines.Step, schema: Any) -> Any:
        return rows.mapInArrow(_of_partitions(step), self._schema(schema))

    def grouped(self, rows: Any, key: str, step: _engines.Step, schema: Any) -> Any:
        return self.whole(rows.repartition(key), step, schema)

    def sorted(self, rows: Any, column: str) -> Any:
        return rows.repartitionByRange(column).sortWithinPartitions(column)

    def join(self, rows: Any, others: Any, on: str, how: Literal["inner", "left_anti"]) -> Any:
        return rows.join(others, on, how)

    def union(self, rows: Any, others: Any) -> Any:
        return rows.unionByName(others)

    def select(self, rows: Any, columns: dict[str, str]) -> Any:
        from pyspark.sql import functions

        any_functions: Any = functions
        # Names are quoted: a dot in a name is no path.
        return rows.select([any_functions.col(f"`{old}`").alias(new) for old, new in columns.items()])

    def keep(self, rows: Any) -> Any:
        return rows.persist()

    def table(self, rows: Any) -> Any:
        return rows.toArrow()

    def rows(self, table: Any) -> Any:
        return self._session.createDataFrame(table)

    def _schema(self, schema: Any) -> Any:
        from pyspark.sql.pandas import types

        any_types: Any = types
        return any_types.from_arrow_schema(schema)


def _of_batches(step: _engines.Step) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A step on each batch."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        pa = _engines.arrow()
        for batch in batches:
            yield from step(pa.Table.from_batches([batch])).to_batches()

    return work


def _of_partitions(step: _engines.Step) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A step on all batches of a partition together."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        pa = _engines.arrow()
        own = list(batches)
        if own:
            yield from step(pa.Table.from_batches(own)).to_batches()

    return work


def dedupe(
    df: Any,
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
    threads: int | None = None,
) -> Deduplicated[Any]:
    """Removes near-duplicates of a Spark DataFrame, and gives two of them: `kept` and `dropped`.

    Keeps what `lookalike.dedupe` keeps of the same rows in the order of their ids, whatever the number of
    executors and partitions. The column `id` has a different value in each row; `keep="first"` is the least
    one. The other arguments are those of `lookalike.dedupe`. `threads` is for the decision, on the driver.

    It needs Spark 4 with pyarrow, and the package on each executor. Ids are numbers or strings. The decisions
    are made during the call; the rows of both frames are joined when they are read. What the steps share is
    persisted in memory and on disk: `spark.catalog.clearCache()` releases it. The driver holds the prints of
    the texts that are near others, some 300 bytes each; with a profile of hashes it decides about all rows.

    Raises ValueError that names the argument, and what to give instead. An error of a row is an error of
    Spark, with the same message.

    >>> import lookalike.spark  # doctest: +SKIP
    >>> df = spark.createDataFrame(list(enumerate(texts)), ["id", "text"])  # doctest: +SKIP
    >>> result = lookalike.spark.dedupe(df, keep="longest")  # doctest: +SKIP
    >>> result.kept.count(), result.dropped.first().replaced_by  # doctest: +SKIP
    (2, 0)
    """
    from pyspark.sql.pandas import types

    any_types: Any = types
    options = _engines.Options(text, id, keep, profile, k, threshold, check, weights, clusters)
    read = options.checked(list(df.columns))
    names = list(read.items()) + ([] if options.value is None else [(options.value, "value")])
    schema = any_types.to_arrow_schema(df.schema)
    value = None if options.value is None else schema.field(options.value).type
    id_type = schema.field(id).type
    engine = _Spark(df.sparkSession, id_type)
    rows = df.select([df[f"`{old}`"].alias(new) for old, new in names])
    found = _engines.run(engine, rows, options, _engines.Schemas(id_type, value), threads)
    return _engines.divided(engine, df, id, found)
