"""What schemathesis cannot know by itself about this contract (SCHEMATHESIS_HOOKS)."""

import schemathesis

# A run takes less than this many seconds.
LONGEST_RUN = 3600


@schemathesis.hook
def filter_body(context, body):
    """Refuses three kinds of bodies that are valid but mislead the checks.

    schemathesis puts an id into a path as it is, where `%41` is read as `A`. A document that expires during
    the run is not found later, which schemathesis reports as a lost resource.
    """
    if not isinstance(body, dict):
        return True
    # It deletes documents that other requests made, and schemathesis reports them as lost resources.
    if context.operation.path.endswith("/deletions") and not body.get("dry_run"):
        return False
    expires_in = body.get("expires_in")
    expires = isinstance(body.get("expires_at"), str)
    expires = expires or isinstance(expires_in, int) and 0 < expires_in < LONGEST_RUN
    return not (expires or "%" in str(body.get("id", "")))


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    """Keeps the collection `default`.

    schemathesis does not know that the paths without a collection use it.
    """
    operation = context.operation
    deletes = operation.method.upper() == "DELETE" and operation.path == "/collections/{collection}"
    return not (deletes and (path_parameters or {}).get("collection") == "default")


@schemathesis.hook
def filter_query(context, query):
    """Leaves out `on_duplicate=replace`.

    It deletes near-duplicates, and schemathesis reports each of them as a lost resource.
    """
    return (query or {}).get("on_duplicate") != "replace"


@schemathesis.hook
def before_call(context, case, kwargs):
    """Deletes another collection than `default`, also where a link names it."""
    deletes = case.method.upper() == "DELETE" and case.operation.path == "/collections/{collection}"
    if deletes and case.path_parameters.get("collection") == "default":
        case.path_parameters["collection"] = "another"


@schemathesis.serializer("application/x-ndjson")
def lines(_context: object, body: object) -> bytes:
    """The body of a stream, which is any text."""
    return str(body).encode(errors="replace")
