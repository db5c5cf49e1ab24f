"""Allocators for other libraries. Each module is imported without its library being usable."""
