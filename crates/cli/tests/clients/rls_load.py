"""Calls the rate limit service continuously: rls_load.py ADDRESS ADDRESS, balanced over both.

Prints `loaded` once there is load, continues until its input ends, and then prints the outcome. Exits with 0 if every
call was answered.
"""

import json
import sys
import threading

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

CLIENTS = 8
CALLS_LOADED = 2000
# Calls after the end of a server was noticed, so that those in flight to it are included.
CALLS_AFTER = 500

request = rls_pb2.RateLimitRequest(domain="tidegate")
entries = request.descriptors.add().entries
entries.add(key="policy", value="api")
entries.add(key="user", value="user-42")

options = [
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    # Each client has its own connections.
    ("grpc.use_local_subchannel_pool", 1),
    # A list of addresses is not a valid HTTP host.
    ("grpc.default_authority", "localhost"),
]
is_over = threading.Event()
lock = threading.Lock()
answered = 0
failures = []


def send_calls():
    global answered
    with grpc.insecure_channel("ipv4:" + ",".join(sys.argv[1:]), options) as channel:
        stub = rls_pb2_grpc.RateLimitServiceStub(channel)
        while not is_over.is_set():
            try:
                stub.ShouldRateLimit(request, timeout=20)
                with lock:
                    answered += 1
            except grpc.RpcError as error:
                with lock:
                    failures.append(f"{error.code()}: {error.details()}")


def wait_for(calls):
    goal = answered + calls
    while answered < goal and not failures:
        is_over.wait(0.005)


clients = [threading.Thread(target=send_calls) for _ in range(CLIENTS)]
for client in clients:
    client.start()
wait_for(CALLS_LOADED)
print("loaded", flush=True)
sys.stdin.read()
wait_for(CALLS_AFTER)
is_over.set()
for client in clients:
    client.join()
print(f"{answered} answered, {len(failures)} failed: {failures[:3]}", flush=True)
sys.exit(1 if failures else 0)
