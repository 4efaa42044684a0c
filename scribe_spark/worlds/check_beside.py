"""``python -m scribe_spark.worlds.check_beside``: check a world; the config is JSON on stdin.

The result is printed as JSON: null, or the field, value and remedy of an `InputError`.
"""

from __future__ import annotations

import json
import sys

from scribe_spark.config import WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.worlds.made_events import check_in_this_process

if __name__ == "__main__":
    refused = None
    try:
        check_in_this_process(WorldConfig(**json.load(sys.stdin)))
    except InputError as error:
        refused = [error.field, error.value, error.remedy]
    print(json.dumps(refused))
