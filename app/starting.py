"""What a command prints where it cannot start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from app.database import DatabaseAway
from app.disks import of_error
from app.errors import PayoffError
from app.settings import refused


@contextmanager
def starting() -> Iterator[None]:
    """A start that fails because of the settings ends with one line that names them, and exit code 2."""
    try:
        yield
    except ValidationError as error:
        reason = refused(error)[0]
    except DatabaseAway as error:
        fix = f"{error.fix}; " if error.fix else ""
        reason = f"the database cannot be used ({error.why}): {fix}PAYOFF_DATABASE names it, or the folder PAYOFF_HOME"
    except PayoffError as error:
        found = of_error(error.__cause__)
        reason = f"{error.detail}: {found.fix}" if found else error.detail
    except OSError as error:
        found = of_error(error)
        fix = f"{found.fix}; " if found else ""
        reason = f"{error.filename or 'a folder'} cannot be used ({error.strerror or error}): {fix}PAYOFF_HOME and"
        reason += " PAYOFF_MODELS name folders that can be written"
    else:
        return
    print(f"payoff: {reason}", file=sys.stderr)
    raise SystemExit(2)
