"""In a checkout, the package itself. It must not be imported: what is tested is installed."""

raise ImportError("the sources of the checkout are in the way of the installed package")
