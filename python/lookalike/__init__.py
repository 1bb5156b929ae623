"""Near-duplicates of texts: fingerprints, an exact index, and deduplication of data frames.

>>> import lookalike as la
>>> text = ("The harbour ferry will run every twenty minutes during the summer festival, the city council "
...         "said on Tuesday. Extra boats have been hired from a neighbouring town.")
>>> result = la.dedupe([text, "The library is open until ten.", text.replace("Tuesday", "Friday")])
>>> len(result.kept), [row["replaced_by"] for row in result.dropped]
(2, [0])

`fingerprint` makes hashes of texts and `Index` finds near ones. `dedupe` removes near-duplicates of a list, a
frame or a data set, and `NearMap` refuses those of texts that arrive one after the other. `compare` says why
two texts match. All of them take images, too, with the profiles "pdq" and "phash-64". `Client` asks a
server. Results are those of the server and of the command, bit for bit.
"""

from ._async_client import AsyncClient
from ._client import (
    Busy,
    Client,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServerError,
    ServerFailed,
    Unauthorized,
    Unreachable,
)
from ._command import CommandFailed, CommandNotFound, FilesDeduplicated, dedupe_files
from ._dedupe import Deduplicated, dedupe
from ._lookalike import (
    Comparison,
    Hashes,
    ImageComparison,
    Index,
    Near,
    NearMap,
    Profile,
    compare,
    fingerprint,
    profiles,
)

__all__ = [
    "AsyncClient",
    "Busy",
    "Client",
    "CommandFailed",
    "CommandNotFound",
    "Comparison",
    "Conflict",
    "Deduplicated",
    "FilesDeduplicated",
    "Forbidden",
    "Hashes",
    "ImageComparison",
    "Index",
    "InvalidRequest",
    "Near",
    "NearMap",
    "NotFound",
    "Profile",
    "ServerError",
    "ServerFailed",
    "Unauthorized",
    "Unreachable",
    "compare",
    "dedupe",
    "dedupe_files",
    "fingerprint",
    "profiles",
]

# In messages an error has the name that programs use.
for _error in (CommandFailed, CommandNotFound, ServerError, *ServerError.__subclasses__()):
    _error.__module__ = __name__
