"""One folder per architecture. `regard.models()` returns all of them by name, including those from plug-ins."""

from regard.registry import architectures, make_callable

make_callable(__name__, architectures)
