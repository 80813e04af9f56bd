#!/usr/bin/env python3
"""Runs a command and sends it a signal once it catches that signal and has used so much processor time.

    signalled.py SIGNAL MILLISECONDS COMMAND..

Ends with the command's exit code, 128 + N for a signal N as a shell has it. On a busy machine the moment comes later,
but it is the same one of the command's work. A command that ends before it was to be signalled is said on standard
error, with exit code 99.
"""

import os
import signal
import subprocess
import sys
import time

TICKS = os.sysconf('SC_CLK_TCK')


def catches(process, number):
    with open(f'/proc/{process}/status', encoding='ascii') as file:
        caught = next(line for line in file if line.startswith('SigCgt:'))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def used_ms(process):
    with open(f'/proc/{process}/stat', encoding='utf-8') as file:
        fields = file.read().rpartition(')')[2].split()  # behind the name, which may have spaces
    return 1000 * (int(fields[11]) + int(fields[12])) // TICKS


def main():
    number, least_ms, command = signal.Signals['SIG' + sys.argv[1]], int(sys.argv[2]), sys.argv[3:]
    with subprocess.Popen(command) as child:
        # A child that has ended has its numbers until it is waited for: ask whether it has in a way that does not wait.
        while not (catches(child.pid, number) and used_ms(child.pid) >= least_ms):
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                print(f'ended before it had used {least_ms} ms', file=sys.stderr)
                return 99
            time.sleep(0.005)
        os.kill(child.pid, number)
        code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == '__main__':
    sys.exit(main())
