"""A function that the settings of a test name by its path."""

from django.http import HttpRequest


def number(request: HttpRequest) -> int:
    return int(request.path.strip("/"))
