"""Tag the words of a text: named entities, parts of speech."""
