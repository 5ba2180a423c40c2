"""The code of the README and of the guide runs as printed, and prints what its comments say."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import List

from tests.processes import SDK, ServerProcesses, post
from tests.servers import body

GUIDE = os.path.join(SDK, "../../docs/guide/nodes-in-python.md")


def blocks(page: str) -> List[str]:
    with open(page, encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)


class PagesTest(unittest.TestCase):
    def check(self, files: "dict[str, str]", program: str) -> None:
        """Runs a program of a page, with the files that it imports."""
        with tempfile.TemporaryDirectory() as folder:
            for name, code in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(code)
            ran = subprocess.run(
                [sys.executable, program], cwd=folder, env={**os.environ, "PYTHONPATH": SDK}, capture_output=True, text=True, check=False
            )
            self.assertEqual([ran.stderr, ran.stdout.splitlines()], ["", re.findall(r"# → (.*)", files[program])])

    def test_the_programs_of_the_readme(self) -> None:
        shop, test = blocks(os.path.join(SDK, "README.md"))
        self.check({"shop.py": shop, "try.py": test}, "try.py")

    @unittest.skipUnless(os.path.exists(GUIDE), "the guide is in the repository only")
    def test_the_programs_of_the_guide(self) -> None:
        node, test = blocks(GUIDE)
        self.check({"tickets.py": node, "test_tickets.py": test}, "test_tickets.py")


class ServedPagesTest(ServerProcesses):
    def serve(self, name: str, code: str) -> str:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(code.replace("port=7001", "port=0"))
        return self.start(name)[1]

    def test_the_server_of_the_readme(self) -> None:
        url = self.serve("shop.py", blocks(os.path.join(SDK, "README.md"))[0])
        answer = post(url, "charge_payment", body("o-1", {"orderId": "o-1", "amount": 42}))
        self.assertEqual(answer, {"outputs": [{"port": "out", "data": {"orderId": "o-1", "chargeId": "ch_o-1"}}], "replayed": False})
        self.assertEqual(post(url, "count_lines", body(data={"lines": [1, 2]}))["outputs"][0]["data"], {"lines": 2})

    @unittest.skipUnless(os.path.exists(GUIDE), "the guide is in the repository only")
    def test_the_server_of_the_guide(self) -> None:
        url = self.serve("tickets.py", blocks(GUIDE)[0])
        self.assertEqual(post(url, "create_ticket", body("m-1", {"subject": "Hello"}))["outputs"][0]["data"], {"ticketId": "T-1", "subject": "Hello"})
