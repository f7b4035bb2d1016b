"""Put on a process's path, it notes what the process makes durable, so that the rest can be cut off (sitecustomize)."""
