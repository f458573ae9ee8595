"""GGUF files turned into folders in Hugging Face's layout; MLX is never imported here."""
