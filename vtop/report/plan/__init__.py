"""Answers of `vtop plan` as documents."""
