"""Speculative decoding over llama.cpp: a drafter proposes, the target verifies."""
