"""Starts servers in processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from typing import Any, Tuple

TESTS = os.path.dirname(os.path.abspath(__file__))
SDK = os.path.dirname(TESTS)


def post(url: str, operation_id: str, content: Any) -> Any:
    request = urllib.request.Request(f"{url}/v1/nodes/{operation_id}/invoke", json.dumps(content).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


class ServerProcesses(unittest.TestCase):
    """Has a folder, and starts servers in it; both are gone after the test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *arguments: str) -> Tuple["subprocess.Popen[str]", str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": SDK},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("nodes at "):
            process.kill()
            self.fail(line + process.communicate()[1])
        return process, line.split(" ")[-1].strip()
