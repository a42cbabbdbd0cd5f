"""Numbers that come as text: what is one, and what says that there is none."""

from __future__ import annotations

import re

NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None", "?")
is_number = re.compile(NUMBER, re.ASCII).fullmatch
