"""The client for asyncio: the requests of `Client`, each in a thread, so that none is written twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from ._client import Client

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Client, P], T], example: str
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A method of `Client` that is awaited, with its arguments, answers and errors."""

    async def call(self: AsyncClient, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await self._ask(method, *arguments, **named)  # pyright: ignore[reportPrivateUsage]

    prose = (method.__doc__ or "").split(">>>")[0].rstrip()
    call.__doc__ = (
        f"{prose}\n\n        Await it.\n\n        >>> import asyncio, lookalike as la\n"
        f"        >>> client = la.AsyncClient()\n        >>> {example}\n"
    )
    call.__name__ = method.__name__
    call.__qualname__ = f"AsyncClient.{method.__name__}"
    return call


class AsyncClient:
    """A client of a server for asyncio, with the methods of `Client`, which are awaited.

    The arguments are those of `Client`. Each request runs in a thread, at most `concurrency` of
    them at a time.
    A request whose task is cancelled goes on in its thread until it is answered, or its `timeout` ends it.

    Every method raises what that of `Client` raises.

    >>> import asyncio, lookalike as la
    >>> async def ask():
    ...     async with la.AsyncClient("http://localhost:1", timeout=5) as client:
    ...         return await client.similar("Please call me back before noon")
    >>> asyncio.run(ask())
    Traceback (most recent call last):
        ...
    lookalike.Unreachable: unreachable (0): http://localhost:1/similar: ... Remedy: check the address ...
    """

    def __init__(
        self,
        url: str = "http://localhost:8080",
        key: str | None = None,
        *,
        collection: str | None = None,
        timeout: float = 30.0,
        concurrency: int = 32,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: {concurrency} is less than 1, the number of requests at a time")
        self._client = Client(url, key, collection=collection, timeout=timeout)
        self._concurrency = concurrency
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return repr(self._client).replace("Client", "AsyncClient", 1)

    def __getstate__(self) -> dict[str, Any]:
        # Threads do not travel.
        return self.__dict__ | {"_threads": None}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads when their requests are answered. A later request starts new ones.

        >>> import lookalike as la
        >>> la.AsyncClient().close()
        """
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="lookalike")
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _ask(
        self, method: Callable[Concatenate[Client, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        return await self._in_thread(partial(method, self._client, *arguments, **named))

    add = _awaited(Client.add, 'asyncio.run(client.add("Please call me back", id="a"))["id"]\n        \'a\'')
    similar = _awaited(
        Client.similar,
        'asyncio.run(client.similar("please call me back!"))["similar"][0]["id"]\n        \'a\'',
    )
    compare = _awaited(
        Client.compare, 'asyncio.run(client.compare("Boats are hired", {"id": "a"}))["match"]\n        False'
    )
    get = _awaited(Client.get, 'asyncio.run(client.get("a"))["id"]\n        \'a\'')
    delete = _awaited(Client.delete, 'asyncio.run(client.delete("a"))')
    create_collection = _awaited(
        Client.create_collection,
        'client = la.AsyncClient(collection="n")\n        >>> '
        'asyncio.run(client.create_collection(profile="copies-64"))["bits"]\n        64',
    )
    delete_collection = _awaited(
        Client.delete_collection, 'asyncio.run(la.AsyncClient(collection="n").delete_collection())'
    )
    request = _awaited(
        Client.request, 'asyncio.run(client.request("GET", "/version"))["version"]\n        \'0.1.0\''
    )

    async def add_many(
        self,
        documents: Iterable[Mapping[str, Any]],
        *,
        on_duplicate: Literal["store", "link", "skip", "replace"] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Stores documents as `Client.add_many`, and gives the answer to each: iterate with `async for`.

        >>> import asyncio, lookalike as la
        >>> async def store(rows):
        ...     return [row["outcome"] async for row in la.AsyncClient().add_many(rows)]
        >>> asyncio.run(store([{"id": "b", "text": "The ferry runs every hour"}]))
        ['created']
        """
        answers = self._client.add_many(documents, on_duplicate=on_duplicate)
        # A request at a time: it has an answer for each of its documents.
        while batch := await self._in_thread(lambda: list(islice(answers, Client.BATCH))):
            for answer in batch:
                yield answer
