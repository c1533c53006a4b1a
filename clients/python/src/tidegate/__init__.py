"""Clients of the tidegate rate limiter.

`Tidegate` is for asyncio, with `tidegate.asgi`, a middleware for ASGI applications, and `tidegate.fastapi`,
a dependency for FastAPI. `SyncTidegate` is for threads, with `tidegate.flask` and `tidegate.django`.
"""

from .checks import Check, Key
from .client import Tidegate
from .errors import TidegateError
from .fallback import OnError
from .replies import Decision, Reservation
from .sync import SyncTidegate

__all__ = ["Check", "Decision", "Key", "OnError", "Reservation", "SyncTidegate", "Tidegate", "TidegateError"]
__version__ = "0.1.0"
