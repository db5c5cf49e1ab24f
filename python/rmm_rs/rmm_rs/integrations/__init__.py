"""Parts for other libraries that are more than an allocator.

Each module is imported without its library being usable.
"""
