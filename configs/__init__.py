"""Typed settings that the YAML `args:` are read into, templates of ours and ready-made profiles."""
