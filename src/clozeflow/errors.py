"""The one exception that a user is meant to read."""

from __future__ import annotations

import functools

INTERRUPTED = 130
"""The exit code by which shells know SIGINT."""


class UserError(Exception):
    """Something the user can mend: shown as one message, without a traceback.

    Args:
        where: The file, folder, flag or setting at fault.
        what: What is wrong with it, as a clause.
        got: The value that was found.
        expected: The value that was wanted.
        fix: What to do next, as a sentence.
    """

    def __init__(
        self, where: object, what: str, *, fix: str, got: object = None, expected: object = None
    ) -> None:
        facts = [
            f"{name} {value}"
            for name, value in (("got", got), ("expected", expected))
            if value is not None
        ]
        detail = f" ({', '.join(facts)})" if facts else ""
        super().__init__(f"{where}: {what}{detail}. {fix}")
        self.where, self.what, self.got, self.expected, self.fix = where, what, got, expected, fix

    def __reduce__(self) -> tuple[object, ...]:
        """Travels from worker processes; the default would lose the keywords."""
        make = functools.partial(UserError, fix=self.fix, got=self.got, expected=self.expected)
        return make, (self.where, self.what)
