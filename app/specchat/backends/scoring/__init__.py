"""Inference engines that score a draft through interfaces of their own: SGLang, vLLM."""
