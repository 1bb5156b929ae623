"""What schemathesis cannot know by itself about this contract (SCHEMATHESIS_HOOKS)."""

import schemathesis


@schemathesis.hook
def filter_body(context, body):
    """No id with a percent sign: schemathesis puts an id into a path as it is, where `%41` is read as `A`."""
    return not (isinstance(body, dict) and "%" in str(body.get("id", "")))
