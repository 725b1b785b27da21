"""The loop with its optimizers, schedules, exact resume and progress, which know no task; and the runs of each task."""
