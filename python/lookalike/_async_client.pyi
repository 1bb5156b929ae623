"""The types of the client for asyncio. Its methods are made of those of `Client`; a test compares both."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal

class AsyncClient:
    def __init__(
        self,
        url: str = "http://localhost:8080",
        key: str | None = None,
        *,
        collection: str | None = None,
        timeout: float = 30.0,
        concurrency: int = 32,
    ) -> None: ...
    async def __aenter__(self) -> AsyncClient: ...
    async def __aexit__(self, *error: object) -> None: ...
    def close(self) -> None: ...
    async def add(
        self,
        text: str | None = None,
        *,
        hash: str | None = None,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_in: str | None = None,
        on_duplicate: Literal["store", "link", "skip", "replace"] | None = None,
    ) -> dict[str, Any]: ...
    def add_many(
        self,
        documents: Iterable[Mapping[str, Any]],
        *,
        on_duplicate: Literal["store", "link", "skip", "replace"] | None = None,
    ) -> AsyncIterator[dict[str, Any]]: ...
    async def similar(
        self,
        text: str | None = None,
        *,
        hash: str | None = None,
        id: str | None = None,
        k: int | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    async def compare(self, a: str | Mapping[str, Any], b: str | Mapping[str, Any]) -> dict[str, Any]: ...
    async def get(self, id: str) -> dict[str, Any]: ...
    async def delete(self, id: str) -> None: ...
    async def create_collection(self, **settings: Any) -> dict[str, Any]: ...
    async def delete_collection(self) -> None: ...
    async def request(self, method: str, route: str, body: object = None) -> Any: ...
