"""From turns to token ids, and from tokens to the text that a person sees."""
