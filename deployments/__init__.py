"""HTTP and Ray: the protocols, their use cases, and the Serve deployments that run them."""
