"""A client of the server, over the standard library. Answers are dicts, as docs/documents.md shows them."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

_Json = dict[str, Any]


class ServerError(Exception):
    """The server refused a request, or could not answer it. After a refusal nothing was done.

    `code` is the kind of error for programs (docs/errors.md lists all), `status` that of HTTP, and `detail`
    names the field, the limit and the remedy. `errors` lists the fields that are wrong. `outcome` says of a
    write whether it was done: "not_applied", "unknown", or None if the server does not say. `remedy` is what
    helps against errors of this class.
    """

    remedy = "read detail: it names the remedy"
    """What helps against errors of this class."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.code: str = str(problem.get("code", "unknown"))
        self.detail: str = str(problem.get("detail", ""))
        self.errors: list[_Json] = list(problem.get("errors") or [])
        self.outcome: str | None = problem.get("outcome")
        self.retry_after = retry_after
        super().__init__(status, problem, retry_after)

    def __str__(self) -> str:
        wrong = "".join(
            f"; {error.get('pointer', error.get('parameter'))}: {error.get('detail')}"
            for error in self.errors
        )
        return f"{self.code} ({self.status}): {self.detail}{wrong}. Remedy: {self.remedy}"


class InvalidRequest(ServerError):
    """A value of the request is wrong: of a field, a parameter, or the body (400, 405, 413 to 415, 422)."""

    remedy = "correct the field that detail names"


class Unauthorized(ServerError):
    """The server requires a key, and got none or one that it does not know (401)."""

    remedy = "give Client(key=…) a key that `lookalike keys create` made"


class Forbidden(ServerError):
    """The key does not allow this, or the server does not know its host name (403, 421)."""

    remedy = "use a key with the role and the collection that detail names"


class NotFound(ServerError):
    """There is no such document, collection or route (404)."""

    remedy = "check the id, and the collection of this client"


class Conflict(ServerError):
    """The state of the server does not allow this, such as another profile of the collection (409, 412)."""

    remedy = "read the state, and decide again"


class Busy(ServerError):
    """The server cannot answer now (408, 429, 503). `retry_after` has the seconds that it asks for."""

    remedy = "try again after retry_after seconds"


class ServerFailed(ServerError):
    """The server failed, or has no space (500, 501, 507)."""

    remedy = "look into the log of the server"


class Unreachable(ServerError):
    """No server answers at this address, or its answer was cut. The outcome of a write is "unknown"."""

    remedy = (
        "check the address and whether `lookalike serve` runs; a write can be repeated with the same id"
    )


_OF_STATUS: dict[int, type[ServerError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Busy,
    409: Conflict,
    412: Conflict,
    421: Forbidden,
    429: Busy,
    503: Busy,
}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The server sends no redirects, and the key is for it alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class Client:
    """A client of the server at `url`, by default that of `lookalike serve` on this machine.

    `key` is a key that the server requires, if it requires any. `collection` is the one that is meant, by
    default that of the server. `timeout` is in seconds, for each request. A client may be used by several
    threads, and can be pickled.

    Every method raises a `ServerError`: `InvalidRequest`, `Unauthorized`, `Forbidden`, `NotFound`,
    `Conflict`, `Busy`, `ServerFailed` or `Unreachable`.

    >>> import lookalike as la
    >>> client = la.Client("http://localhost:1", timeout=5)
    >>> client.similar("Please call me back before noon")
    Traceback (most recent call last):
        ...
    lookalike.Unreachable: unreachable (0): http://localhost:1/similar: ... Remedy: check the address ...
    """

    BATCH = 500
    """The documents that `add_many` sends at a time."""

    def __init__(
        self,
        url: str = "http://localhost:8080",
        key: str | None = None,
        *,
        collection: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"url: {url!r} begins with neither http:// nor https://")
        self._url = url.rstrip("/")
        self._key = key
        self._collection = collection
        self._timeout = timeout

    def __repr__(self) -> str:
        # Without the key, which is a secret.
        return f"<lookalike.Client of {self._url}, collection {self._collection or 'default'}>"

    def add(
        self,
        text: str | None = None,
        *,
        hash: str | None = None,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_in: str | None = None,
        on_duplicate: Literal["store", "link", "skip", "replace"] | None = None,
    ) -> _Json:
        """Stores a document: a text, or a hash made elsewhere. Returns its id, hash, outcome and near ones.

        With `on_duplicate` "skip", a text that is near a stored one is not stored, and the outcome is
        "duplicate". `expires_in` is a time such as "36h".

        >>> import lookalike as la
        >>> client = la.Client()
        >>> client.add("Please call me back before noon", id="a")["outcome"]
        'created'
        """
        document = _given(text=text, hash=hash, id=id, metadata=metadata, expires_in=expires_in)
        return self.request("POST", self._route("/documents", on_duplicate=on_duplicate), document)

    def add_many(
        self,
        documents: Iterable[Mapping[str, Any]],
        *,
        on_duplicate: Literal["store", "link", "skip", "replace"] | None = None,
    ) -> Iterator[_Json]:
        """Stores documents, 500 at a time, and gives the answer to each, with its `index`.

        A document is a dict with `text` or `hash`, and `id`, `metadata` and `expires_in` if you like. An
        invalid one fails alone: its answer has `error`. The work is done while you iterate.

        >>> import lookalike as la
        >>> rows = [{"id": "a", "text": "Please call me back before noon"}]
        >>> [row["outcome"] for row in la.Client().add_many(rows)]
        ['updated']
        """
        rest = iter(documents)
        first = 0
        while batch := list(islice(rest, self.BATCH)):
            route = self._route("/batch/documents", on_duplicate=on_duplicate)
            answer = self.request("POST", route, [dict(document) for document in batch])
            for result in answer["results"]:
                yield {**result, "index": first + result["index"]}
            first += len(batch)

    def similar(
        self,
        text: str | None = None,
        *,
        hash: str | None = None,
        id: str | None = None,
        k: int | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> _Json:
        """The stored documents near a text, a hash or a stored document, under "similar", the nearest first.

        >>> import lookalike as la
        >>> la.Client().similar("please call me back before noon!")["similar"][0]["id"]
        'a'
        """
        query = _given(text=text, hash=hash, id=id, k=k, limit=limit, filter=filter)
        return self.request("POST", self._route("/similar"), query)

    def compare(self, a: str | Mapping[str, Any], b: str | Mapping[str, Any]) -> _Json:
        """Compares two texts, stored documents ({"id": …}) or hashes ({"hash": …}): says why they match.

        >>> import lookalike as la
        >>> la.Client().compare("Boats are hired", {"id": "a"})["match"]
        False
        """
        sides = {
            name: {"text": side} if isinstance(side, str) else dict(side)
            for name, side in (("a", a), ("b", b))
        }
        return self.request("POST", self._route("/compare"), sides)

    def get(self, id: str) -> _Json:
        """A stored document.

        >>> import lookalike as la
        >>> la.Client().get("a")["id"]
        'a'
        """
        return self.request("GET", self._route(f"/documents/{urllib.parse.quote(id, safe='')}"))

    def delete(self, id: str) -> None:
        """Deletes a document. Raises NotFound if it is not stored.

        >>> import lookalike as la
        >>> la.Client().delete("a")
        """
        self.request("DELETE", self._route(f"/documents/{urllib.parse.quote(id, safe='')}"))

    def create_collection(self, **settings: Any) -> _Json:
        """Creates the collection of this client with these settings, such as profile="copies-64" and k=9.

        Raises ValueError if this client names no collection, and Conflict if it exists with other settings.

        >>> import lookalike as la
        >>> la.Client(collection="news").create_collection(profile="copies-64")["bits"]
        64
        """
        return self.request("PUT", f"/collections/{self._named()}", settings)

    def delete_collection(self) -> None:
        """Deletes the collection of this client with all its documents.

        Raises ValueError if this client names no collection.

        >>> import lookalike as la
        >>> la.Client(collection="news").delete_collection()
        """
        self.request("DELETE", f"/collections/{self._named()}")

    def request(self, method: str, route: str, body: object = None) -> Any:
        """Any other request of the contract: `route` begins with a slash, and `body` is sent as JSON.

        Returns the answer: a dict, a list, a str if it is no JSON, or None if it has no body.

        >>> import lookalike as la
        >>> la.Client().request("GET", "/version")["version"]
        '0.1.0'
        """
        headers = {"accept": "application/json"}
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        url = self._url + route
        opener = urllib.request.build_opener(_NoRedirects)
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with opener.open(request, timeout=self._timeout) as answer:
                text = answer.read()
                is_json = answer.headers.get_content_type().endswith("json")
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            # URLError is an OSError, and so is a timeout.
            reason = getattr(error, "reason", None) or error
            problem = {"code": "unreachable", "detail": f"{url}: {reason}", "outcome": "unknown"}
            raise Unreachable(0, problem) from error
        if not is_json:
            return text.decode("utf-8", "replace") if text else None
        return json.loads(text)

    def _named(self) -> str:
        if self._collection is None:
            raise ValueError("collection: this client names none: Client(collection=NAME)")
        return urllib.parse.quote(self._collection, safe="")

    def _route(self, route: str, **parameters: str | None) -> str:
        given = urllib.parse.urlencode(_given(**parameters))
        start = "" if self._collection is None else f"/collections/{self._named()}"
        return start + route + (f"?{given}" if given else "")


def _given(**values: Any) -> _Json:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _refusal(error: urllib.error.HTTPError) -> ServerError:
    problem: _Json = {}
    if error.headers.get_content_type() == "application/problem+json":
        try:
            problem = json.loads(error.read())
        except (ValueError, OSError, http.client.HTTPException):
            # The answer was cut: its status is all that is known.
            problem = {}
    if not problem:
        # Something between this client and the server answers.
        problem = {"detail": f"{error.url} answers {error.code} {error.reason}, in no form of the server"}
    seconds = error.headers.get("retry-after", "")
    kind = _OF_STATUS.get(error.code, ServerFailed if error.code >= 500 else InvalidRequest)
    return kind(error.code, problem, float(seconds) if seconds.isdigit() else None)
