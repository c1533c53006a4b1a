"""Asyncio client of the tidegate rate limiter.

`Tidegate` is the client, `tidegate.asgi` a middleware for ASGI applications, and `tidegate.fastapi` a
dependency for FastAPI.
"""

from .checks import Check, Key
from .client import Tidegate
from .errors import TidegateError
from .fallback import OnError
from .replies import Decision, Reservation

__all__ = ["Check", "Decision", "Key", "OnError", "Reservation", "Tidegate", "TidegateError"]
__version__ = "0.1.0"
