"""Speculative decoding over llama.cpp: a draft model proposes, a target verifies, the text is the target's."""
