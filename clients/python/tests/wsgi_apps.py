"""The applications that the tests run under gunicorn: one limit each, for a key of the environment."""

from __future__ import annotations

import os

import django
import flask
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path

from tidegate import SyncTidegate
from tidegate.django import client as django_client
from tidegate.django import rate_limit
from tidegate.flask import RateLimit

URL, KEY = os.environ["TIDEGATE_URL"], os.environ["TIDEGATE_KEY"]

client = SyncTidegate(URL, timeout=60, on_error="raise", max_connections=4)
flask_app = flask.Flask(__name__)
flask_app.before_request(RateLimit("exact", client=client, key=KEY, skip=lambda it: it.path == "/view").check)


@flask_app.get("/")
def home() -> str:
    return "hello"


@flask_app.get("/view")
@RateLimit("exact", client=client, key=KEY)
def view() -> str:
    return "hello"


@rate_limit("exact", key=KEY)
def django_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


urlpatterns = [path("", lambda request: HttpResponse("hello")), path("view", django_view)]
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["tidegate.django.RateLimitMiddleware"],
    TIDEGATE={
        "url": URL,
        "timeout": 60,
        "on_error": "raise",
        "max_connections": 4,
        "policy": "exact",
        "key": KEY,
        "skip": lambda request: request.path == "/view",
    },
)
django.setup()
django_app = WSGIHandler()

if os.environ.get("TIDEGATE_CONNECT_BEFORE_FORK"):
    # Connections that the workers must not share.
    client.peek("exact", KEY)
    django_client().peek("exact", KEY)
