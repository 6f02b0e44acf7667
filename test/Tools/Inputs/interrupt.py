"""Interrupts a command by two signals at once, as `timeout` does, when it has a best so far. Prints its standard output.

Usage: interrupt.py COMMAND.."""

import os
import signal
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
for line in process.stderr:
    if "best so far" in line:
        process.send_signal(signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        break
else:
    sys.exit("the command ended before it had a best")
output, _ = process.communicate()
print(output, end="")
sys.exit(0 if process.returncode in (0, 130) else f"exit status {process.returncode}")
