"""One folder for each architecture. `regard.models()` is the registry: every architecture by name, also plug-ins."""

from regard.registry import architectures
from regard.utils.callable_module import make_callable

make_callable(__name__, lambda: architectures)
