"""What `cargo xtask rmm-tests --python` gives to pytest."""
