"""Stores of responses: records, the store protocol and its implementations."""
