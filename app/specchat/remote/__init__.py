"""Targets on other machines: verify servers, and whatever speaks the OpenAI protocol."""
