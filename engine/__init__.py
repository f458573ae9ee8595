"""One model in one process: it never imports deployments, stores or Ray."""
