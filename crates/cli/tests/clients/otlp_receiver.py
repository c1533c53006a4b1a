"""An OpenTelemetry collector that prints its port, and then a line of JSON for each message."""

import json
import sys
from concurrent import futures

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces


def service(name, request, response):
    """A service whose only method is Export."""

    def export(message, _):
        print(json.dumps(MessageToDict(message)), flush=True)
        return response()

    handler = grpc.unary_unary_rpc_method_handler(export, request.FromString, response.SerializeToString)
    return grpc.method_handlers_generic_handler(f"opentelemetry.proto.collector.{name}", {"Export": handler})


server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
server.add_generic_rpc_handlers(
    (
        service("trace.v1.TraceService", traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse),
        service("metrics.v1.MetricsService", metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    )
)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
# Runs until the parent process closes the pipe.
sys.stdin.read()
