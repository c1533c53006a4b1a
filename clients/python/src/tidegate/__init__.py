"""Asyncio client of the tidegate rate limiter.

`Tidegate` asks a server; `tidegate.asgi` has a middleware for ASGI applications, and
`tidegate.fastapi` a dependency for FastAPI.
"""

from .answers import Decision, Reservation
from .client import Tidegate
from .errors import TidegateError
from .fallback import OnError
from .questions import Check, Key

__all__ = ["Check", "Decision", "Key", "OnError", "Reservation", "Tidegate", "TidegateError"]
__version__ = "0.1.0"
