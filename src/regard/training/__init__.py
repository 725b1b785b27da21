"""The loop with its optimisers, schedules, exact resume and progress, which know no task; and the runs of each task."""
