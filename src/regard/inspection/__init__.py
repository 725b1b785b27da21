"""What was seen, measured. Looks without changing."""
