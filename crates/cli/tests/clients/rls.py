"""Calls the rate limit service with a stock client: rls.py ADDRESS. Exits with 0 if everything works.

The server has the rules of it/rls/rules.yaml.
"""

import sys

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
METHOD = f"/{SERVICE}/ShouldRateLimit"
Response = rls_pb2.RateLimitResponse


def request(*descriptors, domain="edge", hits=0):
    built = rls_pb2.RateLimitRequest(domain=domain, hits_addend=hits)
    for entries in descriptors:
        descriptor = built.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
    return built


def raw(channel, path=METHOD):
    """A method that sends raw bytes."""
    return channel.unary_unary(path, request_serializer=lambda it: it, response_deserializer=lambda it: it)


def refused(call, *args, code, says, **kwargs):
    try:
        answer = call(*args, timeout=10, **kwargs)
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        assert says in error.details(), error.details()
    else:
        raise AssertionError(f"{answer} instead of {code}")


def answers(stub):
    one = [("bare", "python")]
    for left in (19, 18):
        answer = stub.ShouldRateLimit(request(one), timeout=10)
        assert answer.overall_code == Response.OK, answer
        (status,) = answer.statuses
        assert (status.code, status.limit_remaining) == (Response.OK, left), answer
        assert (status.current_limit.requests_per_unit, status.current_limit.unit) == (20, 4), answer
        assert 0 < status.duration_until_reset.seconds <= 86400, answer
        assert not answer.response_headers_to_add and not answer.raw_body, answer
    answer = stub.ShouldRateLimit(request(one, [("never", "x")], [("free", "x")], [("unknown", "x")]), timeout=10)
    assert answer.overall_code == Response.OVER_LIMIT, answer
    assert [status.code for status in answer.statuses] == [1, 2, 1, 1], answer
    assert [status.limit_remaining for status in answer.statuses] == [18, 0, 4294967295, 0], answer
    (header,) = answer.response_headers_to_add
    assert header.key == "retry-after" and int(header.value) >= 1, answer
    assert stub.ShouldRateLimit(request(one, domain="nobody"), timeout=10).overall_code == Response.OK


def bad_input(channel, stub):
    """Each has a clear error, and the connection stays open."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    call = raw(channel)
    refused(call, b"", code=invalid, says="domain must not be empty")
    refused(call, b"\x0a\x04edge", code=invalid, says="descriptor list must not be empty")
    whole = request([("bare", "x")]).SerializeToString()
    refused(call, whole[:-1], code=invalid, says="ends early")
    refused(call, b"\xff" * 100, code=invalid, says="64 bits")
    refused(call, b"\x0a\xff\xff\xff\xff\x07", code=invalid, says="ends early")
    refused(stub.ShouldRateLimit, request(*[[("a", "b")]] * 65), code=invalid, says="more than 64 descriptors")
    refused(stub.ShouldRateLimit, request([("a", "b")] * 65), code=invalid, says="more than 64 entries")
    huge = request([("bare", "x")])
    huge.descriptors[0].hits_addend.value = 2**64 - 1
    refused(stub.ShouldRateLimit, huge, code=invalid, says="hits_addend")
    oversized = request([("bare", "x" * (2 << 20))])
    refused(stub.ShouldRateLimit, oversized, code=grpc.StatusCode.OUT_OF_RANGE, says="too large")
    unimplemented = grpc.StatusCode.UNIMPLEMENTED
    refused(raw(channel, f"/{SERVICE}/Other"), b"", code=unimplemented, says="no method")
    refused(raw(channel, "/"), b"", code=unimplemented, says="no method")
    refused(call, whole, code=unimplemented, says="", compression=grpc.Compression.Gzip)
    assert call(whole + b"\xa2\x06\x02xy", timeout=10), "a field of a later version"


def health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE, "ratelimit"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == 1
    unknown = health_pb2.HealthCheckRequest(service="other")
    refused(stub.Check, unknown, code=grpc.StatusCode.NOT_FOUND, says="unknown service")
    assert next(stub.Watch(unknown, timeout=10)).status == 3


def reflection(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert SERVICE in database.get_services(), database.get_services()
    pool = DescriptorPool(database)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("ShouldRateLimit")
    for ours, theirs in ((method.input_type, rls_pb2.RateLimitRequest), (method.output_type, Response)):
        compare(ours, theirs.DESCRIPTOR)
    assert pool.FindServiceByName("grpc.health.v1.Health").FindMethodByName("Watch").server_streaming


def compare(ours, theirs, depth=0):
    """Our descriptor of a message matches Envoy's, except for the fields that we leave out."""
    for field in ours.fields:
        other = theirs.fields_by_number.get(field.number)
        if other is None:
            assert field.name == "is_negative_hits", field.full_name  # newer than these classes
            continue
        assert (field.name, field.type, field.json_name) == (other.name, other.type, other.json_name), field.full_name
        assert field.is_repeated == other.is_repeated, field.full_name
        if field.message_type and depth < 8:
            assert field.message_type.full_name == other.message_type.full_name
            compare(field.message_type, other.message_type, depth + 1)
        if field.enum_type:
            known = {value.number: value.name for value in other.enum_type.values}
            for value in field.enum_type.values:
                assert known.get(value.number, value.name) == value.name, field.full_name


def watch_shutdown(channel):
    """Prints a line while the server serves, and waits until the test stops the server."""
    watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
    assert next(watching).status == 1
    print("watching", flush=True)
    assert next(watching).status == 2
    assert list(watching) == []


def print_error_of_large(channel):
    """Prints the error for an invalid message of the maximum size."""
    try:
        raw(channel)(bytes((1 << 20) - 6), timeout=10)
    except grpc.RpcError as error:
        print(error.code().name)


address, *more = sys.argv[1:]
# Over a Unix socket this client would send the socket's path as the host, which is not a valid HTTP host.
options = [("grpc.default_authority", "localhost")] if address.startswith("unix:") else []
with grpc.insecure_channel(address, options) as connection:
    if more == ["watch"]:
        watch_shutdown(connection)
    elif more == ["large"]:
        print_error_of_large(connection)
    else:
        service = rls_pb2_grpc.RateLimitServiceStub(connection)
        answers(service)
        bad_input(connection, service)
        answer = service.ShouldRateLimit(request([("bare", "after")]), timeout=10)
        assert answer.overall_code == Response.OK, "the connection is broken"
        health(connection)
        reflection(connection)
print("ok")
