#!/bin/bash
# packages.sh: the Debian packages that pg_broker is built, run, checked and measured with.  One list, read by
# `make run`, `make check`, .ci/run and the images in docker/.
#
#   packages.sh install build run      installs what is missing of these lists (apt-get)
#   packages.sh missing build run      prints what is missing, one line, and ends with 1 if anything is
#   packages.sh list build run check   prints the names; "server" and "libraries" are what the images hold
#   packages.sh tool clang-tidy        prints how the tool is called here (clang-tidy-14)
#
# As root, or where sudo asks for no password, it installs; otherwise it prints the one line to run and
# ends with 1.  Where there is no dpkg, or with PACKAGES=no, it trusts that what is needed is there.
set -euo pipefail

debian_version() { (. /etc/os-release 2>/dev/null; echo "${VERSION_ID:-12}"); }

# The newest PostgreSQL server that is installed, else the one that this Debian release brings.
postgresql_version()
{
	local newest
	newest=$(ls -d /usr/lib/postgresql/*/bin/postgres 2>/dev/null | sed 's:^/usr/lib/postgresql/::; s:/.*::' |
		sort -n | tail -1)
	if [ -z "$newest" ]; then
		case $(debian_version) in
			12*) newest=15 ;;
			*) newest=17 ;;
		esac
	fi
	echo "$newest"
}

clang_version()
{
	case $(debian_version) in
		12*) echo 14 ;;
		*) echo 19 ;;
	esac
}

PG=$(postgresql_version)
CLANG=$(clang_version)

BUILD_PACKAGES=(
	gcc make libc6-dev pkg-config python3
	libpq-dev "postgresql-server-dev-$PG"
	libev-dev zlib1g-dev liblz4-dev libzstd-dev libsnappy-dev libssl-dev uthash-dev
)

# What the extension runs in.
SERVER_PACKAGES=("postgresql-$PG" "postgresql-client-$PG")

# What brokerd and brokerctl are linked with, and process 1 of their image.
LIBRARY_PACKAGES=(libpq5 zlib1g liblz4-1 libzstd1 libsnappy1v5 tini)
case $(debian_version) in
	12*) LIBRARY_PACKAGES+=(libev4 libssl3) ;;
	*) LIBRARY_PACKAGES+=(libev4t64 libssl3t64) ;;
esac

RUN_PACKAGES=("${SERVER_PACKAGES[@]}" kcat python3)

CHECK_PACKAGES=(
	"postgresql-$PG-pgtap" libtap-parser-sourcehandler-pgtap-perl pgbouncer
	"clang-$CLANG" "clang-format-$CLANG" "clang-tidy-$CLANG" "libclang-rt-$CLANG-dev"
	librdkafka-dev lz4 zstd shellcheck g++ binutils
	python3-venv python3-pip
	podman podman-compose crun netavark aardvark-dns iptables iproute2 mmdebstrap systemd
)

BENCH_PACKAGES=(
	librdkafka-dev valgrind strace
)

# Apache Kafka and the Java client want a JDK and Maven, wherever they come from.
for list in CHECK_PACKAGES BENCH_PACKAGES; do
	declare -n packages=$list
	command -v javac >/dev/null || packages+=(default-jdk-headless)
	command -v mvn >/dev/null || packages+=(maven)
done

names_of()
{
	local list
	for list in "$@"; do
		case $list in
			build) printf '%s\n' "${BUILD_PACKAGES[@]}" ;;
			run) printf '%s\n' "${RUN_PACKAGES[@]}" ;;
			server) printf '%s\n' "${SERVER_PACKAGES[@]}" ;;
			libraries) printf '%s\n' "${LIBRARY_PACKAGES[@]}" ;;
			check) printf '%s\n' "${CHECK_PACKAGES[@]}" ;;
			bench) printf '%s\n' "${BENCH_PACKAGES[@]}" ;;
			*) echo "packages.sh: no list \"$list\" (build, run, check, bench, server, libraries)" >&2; exit 2 ;;
		esac
	done | sort -u
}

missing_of()
{
	local name
	for name in $(names_of "$@"); do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
	done
}

# Debian's server package makes and starts a cluster "main" when it is first installed.  Nobody asked for
# that one: it would take port 5432.  This file, there only while apt-get runs, tells it not to.
no_main_cluster=/etc/postgresql-common/createcluster.d/pg_broker-installs.conf

install_script()
{
	cat <<-SCRIPT
		set -e
		trap 'rm -f $no_main_cluster' EXIT
		mkdir -p ${no_main_cluster%/*}
		echo 'create_main_cluster = false' > $no_main_cluster
		export DEBIAN_FRONTEND=noninteractive
		apt-get -q update
		apt-get -q -y install --no-install-recommends $*
	SCRIPT
}

install_lists()
{
	local missing as_root log
	if [ "${PACKAGES:-}" = no ] || ! command -v dpkg-query >/dev/null; then
		return 0
	fi
	missing=$(missing_of "$@" | tr '\n' ' ')
	missing=${missing% }
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" = 0 ]; then
		as_root=
	elif sudo -n true 2>/dev/null; then
		as_root="sudo -n"
	else
		echo "Some Debian packages are missing ($missing), and this user may not install them.  Run" >&2
		echo "    sudo '$0' install $*" >&2
		echo "and try again." >&2
		exit 1
	fi
	echo "Installing: $missing" >&2
	log=$(mktemp)
	# shellcheck disable=SC2086  # as_root is a command and its argument, missing is a list
	if ! $as_root bash -c "$(install_script $missing)" >"$log" 2>&1 </dev/null; then
		tail -20 "$log" >&2
		echo "apt-get could not install them; its whole output is in $log" >&2
		exit 1
	fi
	rm -f "$log"
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
	install) install_lists "$@" ;;
	missing)
		missing=$(missing_of "$@" | tr '\n' ' ')
		[ -z "$missing" ] || { echo "$missing"; exit 1; }
		;;
	list) names_of "$@" ;;
	tool) echo "$1-$CLANG" ;;
	*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
