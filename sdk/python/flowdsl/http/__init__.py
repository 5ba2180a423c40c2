"""The node server over HTTP/1.1."""
