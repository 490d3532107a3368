# The private cluster on this machine: run, stop, status, logs, psql, destroy.
