"""Studies that combine the other packages."""
