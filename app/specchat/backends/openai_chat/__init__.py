"""A target behind a plain server of the OpenAI protocol."""
