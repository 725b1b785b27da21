"""The command line: verbs only, no logic."""
