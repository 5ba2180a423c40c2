"""Servers in processes of their own: killed, asked to stop, left by their parent."""

import os
import signal
import subprocess
import sys
import urllib.error
from typing import Any, List

from tests.processes import SDK, TESTS, ServerProcesses, post
from tests.servers import body


class ProcessTest(ServerProcesses):
    def effects(self) -> List[str]:
        with open(os.path.join(self.folder, "effects"), encoding="utf-8") as file:
            return file.read().split()

    def crash(self, dies: str) -> Any:
        """A server dies at this point of an invocation; the runtime invokes again, at the next server. Returns its answer."""
        program = os.path.join(TESTS, "crash_server.py")
        process, url = self.start(program, "answers.db", "effects", dies)
        with self.assertRaises((urllib.error.URLError, ConnectionError)):
            post(url, "charge", body("order-1"))
        self.assertEqual(process.wait(60), -signal.SIGKILL)
        _, url = self.start(program, "answers.db", "effects", "never")
        return post(url, "charge", body("order-1", attempt=2))

    def test_killed_before_the_answer_is_saved_the_node_is_called_again(self) -> None:
        answer = self.crash("before")
        # The unknown window: the provider sees the same key twice.
        self.assertEqual([answer["replayed"], self.effects()], [False, ["order-1", "order-1"]])

    def test_killed_after_the_answer_is_saved_it_is_replayed(self) -> None:
        answer = self.crash("after")
        self.assertEqual([answer["replayed"], answer["outputs"][0]["data"], self.effects()], [True, {"effects": 1}, ["order-1"]])

    def write_nodes(self) -> None:
        with open(os.path.join(self.folder, "shop.py"), "w", encoding="utf-8") as file:
            file.write("from flowdsl import NodeOutput, node\n@node('echo')\ndef echo(input):\n    return NodeOutput().send('out', input.data('in'))\n")

    def test_serve_stops_on_sigterm_and_when_its_standard_input_closes(self) -> None:
        self.write_nodes()
        process, url = self.start("-m", "flowdsl", "serve", "shop:echo", "--dedupe", "sqlite:answers.db")
        self.assertEqual(post(url, "echo", body("k", {"a": 1}))["outputs"], [{"port": "out", "data": {"a": 1}}])
        process.terminate()
        self.assertEqual(process.wait(60), 0)
        process, url = self.start("-m", "flowdsl", "serve", "shop:echo", "--dedupe", "sqlite:answers.db", "--until-stdin-closes")
        self.assertTrue(post(url, "echo", body("k", {"a": 1}))["replayed"])
        # An operator removes the answer while the server runs.
        forget = ["-m", "flowdsl", "forget", "--dedupe", "sqlite:answers.db", "--flow", "f", "--node", "n", "--key", "k"]
        for code in (0, 1):
            forgot = subprocess.run([sys.executable, *forget], cwd=self.folder, env={**os.environ, "PYTHONPATH": SDK}, capture_output=True)
            self.assertEqual(forgot.returncode, code, forgot.stderr)
        self.assertFalse(post(url, "echo", body("k", {"a": 1}))["replayed"])
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(60), 0)

    def test_a_thread_that_hangs_does_not_keep_the_process_after_the_grace_period(self) -> None:
        with open(os.path.join(self.folder, "shop.py"), "w", encoding="utf-8") as file:
            file.write(
                "import sys, time\nfrom flowdsl import node\n@node('hang')\ndef hang(input):\n    print('hangs', flush=True)\n    time.sleep(1000)\n"
            )
        process, url = self.start("-m", "flowdsl", "serve", "shop:hang", "--grace-seconds", "0")
        # The caller does not wait for the answer.
        caller = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {SDK!r})\nfrom tests.processes import post\nfrom tests.servers import body\npost({url!r}, 'hang', body())"],
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(caller.wait)
        self.addCleanup(caller.kill)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "hangs\n")
        process.terminate()
        self.assertEqual(process.wait(60), 0)

    def test_mistakes_on_the_command_line_are_named(self) -> None:
        self.write_nodes()
        for arguments, text in (
            (["serve", "shop"], "must be module:attribute"),
            (["serve", "shop:nodes"], "module shop has no attribute nodes"),
            (["serve", "absent:nodes"], "No module named 'absent'"),
            (["serve", "shop:echo", "--host", "0.0.0.0"], "not a loopback address"),
            (["serve", "shop:echo", "--tokn", "x"], "unrecognized arguments"),
            (["forget", "--dedupe", "sqlite:none.db", "--flow", "f", "--node", "n", "--key", "k"], "of an existing file"),
        ):
            process = subprocess.run(
                [sys.executable, "-m", "flowdsl", *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": SDK},
                capture_output=True,
                text=True,
            )
            self.assertEqual(process.returncode, 2)
            self.assertIn(text, process.stderr)
            self.assertNotIn("Traceback", process.stderr)
