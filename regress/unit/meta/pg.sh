#!/bin/bash
# pg.sh: a private PostgreSQL for one test program, on a Unix socket in its own folder.
#
#   pg.sh start DIR PID        initdb and start; prints the connection string; goes when process PID is gone
#   pg.sh stop DIR [MODE]      MODE: fast (default), immediate
#   pg.sh again DIR            start it once more
#   pg.sh pause|resume DIR     SIGSTOP, SIGCONT to all of its processes
#   pg.sh sql DIR [DB] SQL     as superuser; prints the rows
#   pg.sh file DIR DB FILE     runs a script
#   pg.sh pooler DIR MODE      pgbouncer before it (transaction, session); prints the connection string
#   pg.sh destroy DIR          stop everything and remove DIR
#
# PostgreSQL refuses to run as root; it runs as the user postgres then.
set -eu

command=$1 dir=$2
shift 2
bindir=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ -d "$bindir" ] || bindir=$(pg_config --bindir)
for name in $(env | sed -n 's/^\(PG[A-Z]*\)=.*/\1/p'); do
	unset "$name"
done

as_server()
{
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

postmaster()
{
	head -1 "$dir/data/postmaster.pid" 2>/dev/null || true
}

start()
{
	as_server "$bindir/pg_ctl" -D "$dir/data" -l "$dir/postgres.log" -w -t 60 start >/dev/null ||
		{ tail -5 "$dir/postgres.log" >&2; exit 1; }
}

case $command in
start)
	mkdir -p "$dir"
	[ "$(id -u)" != 0 ] || chown postgres "$dir"
	as_server "$bindir/initdb" -D "$dir/data" -U postgres -E UTF8 --locale=C.UTF-8 --no-sync --auth=trust >/dev/null
	as_server tee -a "$dir/data/postgresql.conf" >/dev/null <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$dir'
		fsync = off
		shared_buffers = 16MB
		max_connections = 40
		max_wal_senders = 2
		log_line_prefix = '%m [%p] %a '
	CONF
	start
	psql -Xqh "$dir" -U postgres -d postgres -c 'CREATE DATABASE broker'
	echo "host=$dir user=postgres dbname=broker"
	owner=$1
	# A test that is killed leaves nothing behind.
	setsid "$0" watch "$dir" "$owner" </dev/null >/dev/null 2>&1 &
	;;
watch)
	while kill -0 "$1" 2>/dev/null; do
		sleep 1
	done
	[ ! -d "$dir" ] || "$0" destroy "$dir"
	;;
stop)
	as_server "$bindir/pg_ctl" -D "$dir/data" -m "${1:-fast}" -w -t 60 stop >/dev/null
	;;
again)
	start
	;;
pause | resume)
	pm=$(postmaster)
	kill -"$([ "$command" = pause ] && echo STOP || echo CONT)" "$pm" $(pgrep -P "$pm")
	;;
sql)
	psql -XqAt -h "$dir" -U postgres -d broker -v ON_ERROR_STOP=1 -c "$1"
	;;
file)
	psql -Xq -h "$dir" -U postgres -d "$1" -v ON_ERROR_STOP=1 -f "$2"
	;;
pooler)
	mode=$1
	as_server tee "$dir/$mode.ini" >/dev/null <<-INI
		[databases]
		broker = host=$dir dbname=broker user=postgres
		[pgbouncer]
		listen_port = 6432
		unix_socket_dir = $dir/$mode
		auth_type = any
		pool_mode = $mode
		pidfile = $dir/$mode.pid
		logfile = $dir/$mode.log
		ignore_startup_parameters = extra_float_digits
	INI
	as_server mkdir -p "$dir/$mode"
	as_server "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" -q -d "$dir/$mode.ini"
	for _ in $(seq 100); do
		# The socket is there a moment before it takes connections.
		pg_isready -q -h "$dir/$mode" -p 6432 && break
		sleep 0.05
	done
	echo "host=$dir/$mode port=6432 user=postgres dbname=broker"
	;;
destroy)
	for pid in "$dir"/*.pid; do
		[ ! -r "$pid" ] || kill "$(cat "$pid")" 2>/dev/null || true
	done
	pm=$(postmaster)
	if [ -n "$pm" ] && kill -0 "$pm" 2>/dev/null; then
		"$0" resume "$dir" 2>/dev/null || true
		"$0" stop "$dir" immediate || true
	fi
	rm -rf "$dir"
	;;
*)
	echo "pg.sh: unknown command $command" >&2
	exit 2
	;;
esac
