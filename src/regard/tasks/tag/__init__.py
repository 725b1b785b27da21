"""Tag each word of a text: named entities or parts of speech."""
