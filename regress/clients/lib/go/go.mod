module pg_broker/regress/driver

go 1.23
