"""The loop: optimisers, schedules, exact resume, progress and report. Nothing here is about one task."""
