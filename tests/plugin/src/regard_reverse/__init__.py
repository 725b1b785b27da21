"""A plug-in of regard: the task `reverse` and the architecture `bag-of-words`."""
