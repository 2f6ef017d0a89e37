"""What every worker of the comparison shares: one line of JSON in, one line out.

A worker is a Python program that holds a peer's library. It says {"ready": seconds, "about": text},
then answers {"requests": [{"adapter": index or null, "prompt": text, "tokens": n}, ...]} with
{"tokens": [n, ...], "seconds": [s, ...]}: what each request was given, and when, from the start of
the line. Standard output is the protocol's; what libraries print goes to standard error.
"""

import json
import os
import sys
import time


def serve(open_peer):
    """Opens the peer by `open_peer()` -> (about, answer) and answers until the input ends."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    began = time.monotonic()
    about, answer = open_peer()

    def say(message):
        protocol.write(json.dumps(message) + "\n")
        protocol.flush()

    say({"ready": time.monotonic() - began, "about": about})
    for line in sys.stdin:
        tokens, seconds = answer(json.loads(line)["requests"])
        say({"tokens": tokens, "seconds": seconds})
