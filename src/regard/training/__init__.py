"""The task-independent training loop, its optimizers, schedules, exact resume and progress, and complete runs."""
