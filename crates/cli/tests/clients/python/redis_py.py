"""redis-py against the given port. Prints each reply as a line of JSON."""

import json
import sys

import redis


def say(answer):
    print(json.dumps(answer, separators=(",", ":")))


def error(client):
    try:
        return client.execute_command("FROB")
    except redis.ResponseError as refused:
        # The library removes the first word, the kind of the error.
        return f"ERR {refused}"


for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    key = f"redis-py-{protocol}"
    say("PONG" if client.ping() else None)
    say(client.execute_command("CL.THROTTLE", key, 2, 1, 3600))
    for transaction in (False, True):  # True unless one says otherwise
        with client.pipeline(transaction) as burst:
            for _ in range(3):
                burst.execute_command("TG.CHECK", "login", key)
            say([five[2] for five in burst.execute()])
    say(client.command()["cl.throttle"]["arity"])
    say(error(client))
    client.close()
    say("OK")
