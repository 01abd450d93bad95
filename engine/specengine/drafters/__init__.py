"""Drafters: every way of guessing what the target says next.

A drafter may be as wrong as it likes; the acceptance rule needs only the distribution that each
draft token was really drawn from.
"""
