"""Parts: what each capability does alongside the worker, from what it finds in the store."""
