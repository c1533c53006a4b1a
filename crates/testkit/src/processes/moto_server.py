"""moto as a server for tests: python moto_server.py HOST PORT [POLICY].

One request at a time, as DynamoDB decides on an item; connections are kept. With a policy there is one user, whose key
and secret are printed; from then on every request has to be signed with them, and may do what the policy allows.
"""

import io
import sys
import threading

from moto import settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

app = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()


def one_at_a_time(environ, start_response):
    # A caller that sends half a request must not keep the others waiting.
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    with lock:
        return list(app(environ, start_response))


def add_user(policy):
    iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    iam.create_user("us-east-1", "tidegate")
    iam.put_user_policy("tidegate", "limits", policy)
    key = iam.create_access_key("tidegate")
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print("key", key.access_key_id, key.secret_access_key, flush=True)


host, port, *policy = sys.argv[1:]
for document in policy:
    add_user(document)
WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple(host, int(port), one_at_a_time, threaded=True)
