#!/bin/sh
# The first start makes the cluster, its database and the role that brokerd logs in with; every start runs the server.
#
#   BROKERD_PASSWORD   of the role brokerd; must be given at the first start
#   arguments          are passed on to the server: -c max_connections=200
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
export PATH="$bin:$PATH"

# Made beside its place and moved there when whole, so that a start that was cut off begins anew.
if [ ! -s "$data/PG_VERSION" ]; then
	: "${BROKERD_PASSWORD:?must be set at the first start: the password of the role brokerd}"
	rm -rf "$data.new"
	initdb -D "$data.new" --auth-local=peer --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >/dev/null
	echo 'host all all all scram-sha-256' >> "$data.new/pg_hba.conf"
	echo "listen_addresses = '*'" >> "$data.new/postgresql.conf"
	pg_ctl -D "$data.new" -o "-c listen_addresses='' -k /tmp" -w start >/dev/null
	psql -q -h /tmp -v ON_ERROR_STOP=1 -v password="$BROKERD_PASSWORD" postgres <<-'SQL'
		CREATE DATABASE broker ENCODING 'UTF8' TEMPLATE template0;
		\connect broker
		CREATE EXTENSION pg_broker;
		CREATE ROLE brokerd LOGIN PASSWORD :'password' IN ROLE broker_daemon;
	SQL
	pg_ctl -D "$data.new" -w stop >/dev/null
	mv "$data.new" "$data"
fi
exec postgres -D "$data" -k /tmp "$@"
