"""Settings, environment, addresses and process-wide limits: what a process of the project needs before it starts."""
