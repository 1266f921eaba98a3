"""Not a test: asks the plain package, reads requests as JSON from standard input and writes answers to standard output.

A request ``{"task", "variation", "simplifications", "actions"}`` is answered by its trace, ``{"splits": name}`` by the three
lists of variations, ``{"templates": name, "simplifications"}`` by the forms of action.
"""

import json
import sys
from typing import Any

from scienceworld import ScienceWorldEnv


def answer(env: Any, request: dict[str, Any]) -> Any:
    if "splits" in request:
        env.load(request["splits"], 0, "")
        return [env.get_variations_train(), env.get_variations_dev(), env.get_variations_test()]
    if "templates" in request:
        env.load(request["templates"], 0, request["simplifications"])
        return env.get_possible_actions()
    env.load(request["task"], request["variation"], request["simplifications"])
    server = env.server
    trace = []
    for action in ["look around", *request["actions"]]:
        text = server.step(action)
        trace.append([text, round(100 * server.getScore()), server.getCompleted(), server.freeActionLook()])
    return trace


def main() -> None:
    env = ScienceWorldEnv()
    sys.stdout.write(json.dumps([answer(env, request) for request in json.load(sys.stdin)]))
    env.close()


if __name__ == "__main__":
    main()
