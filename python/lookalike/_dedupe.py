"""Deduplication of lists, frames and data sets: what came in is taken apart, decided, and put together.

The decisions are made in the native module. No library of frames is imported that the caller has not.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Generic, Literal, TypeVar, cast, overload

from . import _frames
from ._lookalike import Weights, decide, profiles

K = TypeVar("K")
D = TypeVar("D")
F = TypeVar("F")


@dataclass(frozen=True, repr=False)
class Deduplicated(Generic[K, D]):
    """Data without near-duplicates, and the near-duplicates.

    >>> import lookalike as la
    >>> result = la.dedupe({"text": ["Please call me back", "please call me back!"], "n": [1, 2]})
    >>> result.kept, result.k
    ({'text': ['Please call me back'], 'n': [1]}, 99)
    >>> result.kept_rows, result.dropped_rows
    ([0], [1])
    """

    kept: K
    """What is kept, of the type that came in."""
    dropped: D
    """What is dropped, with `replaced_by`, `distance`, `similarity`, `exact` and `contained`."""
    kept_rows: list[int]
    """The numbers of the kept rows, from 0, ascending."""
    dropped_rows: list[int]
    """The numbers of the dropped rows, from 0, ascending."""
    k: int
    """The largest distance of near texts, in bits or in cells of signatures."""
    without_features: int
    """How many kept texts have no words, so that they were compared with nothing."""
    short: int
    """How many texts are so short for the profile that a copy with one changed word may be missed."""
    _weights: Weights | None

    @property
    def taught_by(self) -> int | None:
        """How many different texts taught the weights of features; None if there are no weights."""
        return None if self._weights is None else self._weights.documents

    def __repr__(self) -> str:
        kept, dropped = len(self.kept_rows), len(self.dropped_rows)
        return f"<lookalike.Deduplicated: {kept} rows kept, {dropped} dropped, k={self.k}>"

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Writes the learned weights into a file, so that other runs compare texts alike.

        `path` is for `dedupe(weights=path)`, and for `lookalike dedupe --weights`. Raises ValueError if there
        are no weights (`taught_by` is None), and OSError if the file cannot be written.

        >>> import lookalike as la
        >>> la.dedupe(["too few texts"]).save_weights("weights.bin")
        Traceback (most recent call last):
            ...
        ValueError: weights: this result has none to save: its texts taught none
        """
        if self._weights is None:
            raise ValueError("weights: this result has none to save: its texts taught none")
        self._weights.save(fspath(path))


@overload
def dedupe(
    data: list[str],
    *,
    text: str = ...,
    id: str | None = ...,
    keep: str = ...,
    profile: str = ...,
    k: int | None = ...,
    threshold: float | None = ...,
    check: float | None = ...,
    contained_in: float | None = ...,
    weights: str | PathLike[str] | None = ...,
    clusters: Literal["greedy", "linked"] = ...,
    contained: bool = ...,
    min_quality: int = ...,
    threads: int | None = ...,
    progress: bool = ...,
) -> Deduplicated[list[str], list[dict[str, Any]]]: ...


@overload
def dedupe(
    data: list[F],
    *,
    text: str = ...,
    id: str | None = ...,
    keep: str = ...,
    profile: str,
    k: int | None = ...,
    threshold: float | None = ...,
    check: float | None = ...,
    contained_in: float | None = ...,
    weights: str | PathLike[str] | None = ...,
    clusters: Literal["greedy", "linked"] = ...,
    contained: bool = ...,
    min_quality: int = ...,
    threads: int | None = ...,
    progress: bool = ...,
) -> Deduplicated[list[F], list[dict[str, Any]]]: ...


@overload
def dedupe(
    data: Iterator[F],
    *,
    text: str = ...,
    id: str | None = ...,
    keep: str = ...,
    profile: str = ...,
    k: int | None = ...,
    threshold: float | None = ...,
    check: float | None = ...,
    contained_in: float | None = ...,
    weights: str | PathLike[str] | None = ...,
    clusters: Literal["greedy", "linked"] = ...,
    contained: bool = ...,
    min_quality: int = ...,
    threads: int | None = ...,
    progress: bool = ...,
) -> Deduplicated[list[F], list[F]]: ...


@overload
def dedupe(
    data: F,
    *,
    text: str = ...,
    id: str | None = ...,
    keep: str = ...,
    profile: str = ...,
    k: int | None = ...,
    threshold: float | None = ...,
    check: float | None = ...,
    contained_in: float | None = ...,
    weights: str | PathLike[str] | None = ...,
    clusters: Literal["greedy", "linked"] = ...,
    contained: bool = ...,
    min_quality: int = ...,
    threads: int | None = ...,
    progress: bool = ...,
) -> Deduplicated[F, F]: ...


def dedupe(
    data: object,
    *,
    text: str = "text",
    id: str | None = "id",
    keep: str = "first",
    profile: str = "minhash-copies",
    k: int | None = None,
    threshold: float | None = None,
    check: float | None = None,
    contained_in: float | None = None,
    weights: str | PathLike[str] | None = None,
    clusters: Literal["greedy", "linked"] = "greedy",
    contained: bool = True,
    min_quality: int = 50,
    threads: int | None = None,
    progress: bool = False,
) -> Deduplicated[Any, Any]:
    """Removes near-duplicates. Keeps the texts that the command `lookalike dedupe` keeps of the same rows.

    `data` is a list of str, a dict of columns, a pyarrow Table or RecordBatch, a polars or pandas DataFrame,
    a datasets.Dataset, or an iterator of batches of one of these types, which gives lists of batches.

    - `text` names the column of texts; a list of str has none.
    - `id` names the column of ids, which `replaced_by` then has. By default "id" if there is such a column;
      without one, and with None, `replaced_by` has numbers of rows from 0.
    - `keep` is the rule that says which of near texts is kept: "first", "longest", "newest:COLUMN",
      "oldest:COLUMN", "max:COLUMN", "min:COLUMN", or "central" (most neighbours).
    - `profile` compares the texts: a name or id of `profiles()`.
    - `k` is the largest distance of near texts, in bits or in cells of signatures; for profiles with
      signatures, `threshold` is instead their least similarity, 0 to 1. By default that of the profile.
    - `check` is a second condition: the least similarity of their pairs of words, 0 to 1.
    - `contained_in` also drops texts of which this share, 0 to 1, stands in a longer kept text, if it is a
      quarter of that one or more; with `keep="longest"`.
    - `weights` of features, for profiles of minima: "learned" from the texts, "none", or a file of
      `save_weights`. By default they are learned if at least 100 different texts teach them.
    - `clusters`: "greedy" (each dropped text is near the kept one) or "linked" (a chain of near texts is one
      group).
    - With a profile of images, "pdq" or "phash-64", the column of `text`, by default "image", has the bytes
      of image files, images of Pillow, or structs with the field "bytes" of data sets of Hugging Face; and a
      list has bytes or images. Those of a quality below `min_quality` are kept, and near nothing: flat images
      have near hashes. `contained` is left out.
    - `contained=False` leaves out that column: it reads the features of dropped texts again.
    - `threads` changes no result; None is one for each processor. `progress` shows a bar, which needs tqdm.

    The dropped rows have all their columns, and five more: `replaced_by`, the `distance` to it, the estimated
    `similarity` (0 to 1; None for profiles of hashes), `exact`, whether both texts are equal, and
    `contained`, the share of the features of the dropped text that the other one has (0 to 1, without
    weights). Dropped strings of a list are dicts with `row`, `text` and these.

    Raises ValueError or TypeError that name the argument, and what to give instead.

    >>> import lookalike as la
    >>> rows = {"id": ["a", "b", "c"], "text": ["Please call me back before noon",
    ...         "The ferry runs every hour", "please call me back before noon!!"]}
    >>> result = la.dedupe(rows, keep="longest")
    >>> result.kept["id"], result.dropped["id"], result.dropped["replaced_by"], result.dropped["similarity"]
    (['b', 'c'], ['a'], ['c'], [1.0])
    """
    batches, together = _frames.batches_of(data)
    takes_images = any(own.takes_images and profile in (own.id, own.name) for own in profiles())
    if takes_images and text == "text":
        text = "image"
    columns = [batch.texts(text) for batch in batches]
    ids = _ids(batches, id)
    lengths = [batch.length for batch in batches]
    with _bar(progress, sum(lengths)) as advance:
        decisions = decide(
            columns,
            _values(batches, keep),
            argument="data" if all(isinstance(batch, _frames.Strings) for batch in batches) else "text",
            keep=keep,
            profile=profile,
            k=k,
            threshold=threshold,
            check=check,
            contained_in=contained_in,
            weights=None if weights is None else fspath(weights),
            clusters=clusters,
            contained=contained,
            min_quality=min_quality,
            threads=threads,
            progress=advance,
        )
    kept_rows, dropped_rows = decisions.kept, decisions.dropped
    replaced_by = decisions.replaced_by
    added: dict[str, list[Any]] = {
        "replaced_by": replaced_by if ids is None else [ids[row] for row in replaced_by],
        "distance": decisions.distance,
        "similarity": decisions.similarity or [None] * len(dropped_rows),
        "exact": decisions.exact,
    }
    if contained and not takes_images:
        added["contained"] = decisions.contained or []
    kept: list[Any] = []
    dropped: list[Any] = []
    first = kept_from = dropped_from = 0
    for batch, length in zip(batches, lengths):
        kept_to = _end(kept_rows, kept_from, first + length)
        dropped_to = _end(dropped_rows, dropped_from, first + length)
        kept.append(batch.kept([row - first for row in kept_rows[kept_from:kept_to]]))
        rows = [row - first for row in dropped_rows[dropped_from:dropped_to]]
        part = {name: values[dropped_from:dropped_to] for name, values in added.items()}
        dropped.append(batch.dropped(rows, _frames.Added(part, None if ids is None else id), first))
        first, kept_from, dropped_from = first + length, kept_to, dropped_to
    return Deduplicated(
        kept=together(kept),
        dropped=together(dropped),
        kept_rows=kept_rows,
        dropped_rows=dropped_rows,
        k=decisions.k,
        without_features=decisions.without_features,
        short=decisions.short,
        _weights=decisions.weights,
    )


def _end(rows: list[int], start: int, before: int) -> int:
    """The place after the last of the ascending `rows`, from `start` on, that is smaller than `before`."""
    return bisect_left(rows, before, start)


def _ids(batches: Sequence[_frames.Frame], id: str | None) -> list[Any] | None:
    """The ids of all rows; None if rows are called by their numbers."""
    if id is None or all(isinstance(batch, _frames.Strings) for batch in batches):
        return None
    if id == "id" and not all(id in batch.names for batch in batches):
        return None
    ids: list[Any] = []
    for batch in batches:
        ids.extend(batch.values("id", id))
    seen: dict[Any, int] = {}
    for row, own in enumerate(ids):
        other = seen.setdefault(own, row)
        if other != row:
            raise ValueError(
                f"id: {own!r} is repeated, in rows {other} and {row}: name another column, or give id=None "
                "to call rows by their numbers"
            )
    return ids


def _values(batches: Sequence[_frames.Frame], keep: str) -> list[str | None] | None:
    """The values of the column that the keep rule names, as the command reads them."""
    rule, _, column = keep.partition(":")
    if rule not in ("newest", "oldest", "max", "min") or not column:
        return None
    values: list[str | None] = []
    for batch in batches:
        values.extend(plain(value) for value in batch.values("keep", column))
    return values


def plain(value: object) -> str | None:
    """A value as a string: of a time its seconds since 1970, in UTC unless it has a time zone."""
    if isinstance(value, datetime.datetime):
        in_zone = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return repr(in_zone.timestamp())
    return None if value is None else str(value)


class _bar:
    """A bar of tqdm for the time of a `with`, which gives what advances it; None if no bar is wanted."""

    def __init__(self, is_wanted: bool, total: int) -> None:
        self._bar: Any = None
        if not is_wanted:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            why = "progress: tqdm is not installed: pip install tqdm, or give progress=False"
            raise ImportError(why) from None
        self._bar = cast("Any", tqdm)(total=total, unit=" texts", desc="dedupe")

    def __enter__(self) -> Callable[[int], object] | None:
        return None if self._bar is None else self._to

    def _to(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
