"""What a client sends and what it is sent: one module a surface, no behaviour."""
