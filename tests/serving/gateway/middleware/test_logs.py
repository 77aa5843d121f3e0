import json
import logging

import pytest

from serving.gateway.middleware.logs import JsonFormatter


@pytest.mark.planted
def test_a_line_is_of_ascii_whatever_a_path_holds():
    path = "/\u009b31m\u0085\u2028\u202e\x1b\n"
    record = logging.makeLogRecord({"msg": "request", "fields": {"path": path}})
    line = JsonFormatter().format(record)
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["path"] == path
