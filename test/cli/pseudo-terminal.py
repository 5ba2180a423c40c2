"""Runs a command on a terminal of its own. The argument is JSON: argv, columns, rows, steps. Each step waits for a text, then sends keys or resizes the window."""

import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

spec = json.loads(sys.argv[1])


def resize(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


pid, fd = pty.fork()
if pid == 0:
    resize(0, spec["columns"], spec["rows"])
    os.execv(spec["argv"][0], spec["argv"])

out, seen, steps, deadline = b"", 0, list(spec["steps"]), time.time() + 50
while time.time() < deadline:
    ready, _, _ = select.select([fd], [], [], 0.1)
    try:
        more = os.read(fd, 65536) if ready else b""
    except OSError:
        break
    if ready and more == b"":
        break
    out += more
    while steps and steps[0]["waitFor"].encode() in out[seen:]:
        seen = len(out)
        step = steps.pop(0)
        if "send" in step:
            os.write(fd, step["send"].encode())
        if "resize" in step:
            resize(fd, *step["resize"])
else:
    os.kill(pid, 9)

_, status = os.waitpid(pid, 0)
print(json.dumps({"code": os.waitstatus_to_exitcode(status), "out": out.decode("utf8", "replace"), "stepsLeft": len(steps)}))
