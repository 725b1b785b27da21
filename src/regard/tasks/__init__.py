"""One folder for each task. `regard.tasks()` is the registry: every task by name, also those of other packages."""

from regard.registry import tasks
from regard.utils.callable_module import make_callable

make_callable(__name__, lambda: tasks)
