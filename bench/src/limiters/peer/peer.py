"""A limiter in memory for Python: `python peer.py KEYS MILLISECONDS` prints one line of JSON.

No run uses the limit up.
"""

import gc
import json
import random
import sys
import time
import tracemalloc

from limits import RateLimitItemPerHour
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

# Between two looks at the clock.
BATCH = 64

count, milliseconds = map(int, sys.argv[1:])
keys = [f"user-{number:019}" for number in range(count)]
order = [keys[random.randrange(count)] for _ in range(1 << 17)]
item = RateLimitItemPerHour(10**9)


def filled():
    limiter = FixedWindowRateLimiter(MemoryStorage())
    for key in keys:
        limiter.hit(item, key)
    return limiter


def bytes_per_key():
    tracemalloc.start()
    limiter = filled()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del limiter
    return held / count


def rate(limiter):
    start, checks = time.perf_counter(), 0
    while (took := time.perf_counter() - start) * 1000 < milliseconds:
        at = checks % len(order)
        for key in order[at : at + BATCH]:
            limiter.hit(item, key)
        checks += BATCH
    return checks / took


memory = bytes_per_key()
limiter = filled()
rate(limiter)
print(json.dumps({"rate": rate(limiter), "bytes_per_key": memory}), flush=True)
