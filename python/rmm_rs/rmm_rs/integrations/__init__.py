"""Parts for other libraries that are more than an allocator.

Each imports its library when it is imported or called.
"""
