"""One folder per task. `regard.tasks()` returns all tasks by name, including tasks from other packages."""

from regard.registry import make_callable, tasks

make_callable(__name__, tasks)
