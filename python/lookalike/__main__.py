"""`python -m lookalike …`: the command `lookalike`, in place of this process."""

import os
import subprocess
import sys

from ._command import CommandNotFound, environment, find_command


def main() -> int:
    """Runs the command with the arguments of this process."""
    try:
        command = find_command()
    except CommandNotFound as error:
        print(f"lookalike: {error}", file=sys.stderr)
        return 127
    arguments = [command, *sys.argv[1:]]
    if os.name == "nt":
        return subprocess.call(arguments, env=environment())
    sys.stdout.flush()
    os.execve(command, arguments, environment())


if __name__ == "__main__":
    sys.exit(main())
