"""A plug-in of regard: the task `reverse`, the architecture `bag-of-words` and its view `contributions`."""
