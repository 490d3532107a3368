#!/bin/bash
# pg_tree.sh: a private PostgreSQL installation with the extension in it.
#
#   pg_tree.sh TARGET EXTENSION_BUILD [PG_CONFIG]
#
# TARGET           folder to make; made again from scratch when it is there and out of date
# EXTENSION_BUILD  folder with pg_broker.so, pg_broker.control and pg_broker--*.sql (make extension)
# prints           the folder of the private programs (initdb, pg_ctl, postgres), for PATH
#
# Why: PostgreSQL 15 reads extensions only from its own share folder.  Nothing that is run from a checkout
# may write there: it needs root, and any other server on the machine would see it.  A server finds its
# share and lib folders relative to its own binary, so a copy of the few programs in a tree of links is an
# installation of its own.  It takes about 10 MB.  Everybody may read it: the server may run as another user.
set -eu

[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
target=$1 ext=$2 pg_config=${3:-${PG_CONFIG:-pg_config}}

bindir=$("$pg_config" --bindir)
libdir=$("$pg_config" --pkglibdir)
sharedir=$("$pg_config" --sharedir)

for f in "$ext/pg_broker.so" "$ext/pg_broker.control"; do
	[ -r "$f" ] || { echo "pg_tree.sh: $f is missing: run make extension" >&2; exit 1; }
done

# What the three folders have in common goes; the rest is laid out the same way below TARGET, because the
# server computes one from the other.
common=$bindir
while [ "${libdir#"$common"/}" = "$libdir" ] || [ "${sharedir#"$common"/}" = "$sharedir" ]; do
	common=${common%/*}
done
bin=$target${bindir#"$common"}
lib=$target${libdir#"$common"}
share=$target${sharedir#"$common"}

# Links to every entry of one folder, without an extension of ours that somebody installed there.
link_all()
{
	mkdir -p "$2"
	ln -s -t "$2" "$1"/*
	rm -f "$2"/pg_broker.so "$2"/pg_broker.control "$2"/pg_broker--*.sql
}

stamp=$("$bindir/postgres" --version; stat -c '%s %Y' "$bindir/postgres")
if [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$target"
	# These look for their neighbours from where they really are: copies, not links.
	link_all "$bindir" "$bin"
	for p in postgres initdb pg_ctl; do
		rm "$bin/$p"
		cp -L "$bindir/$p" "$bin/$p"
	done
	link_all "$libdir" "$lib"
	link_all "$sharedir" "$share"
	rm "$share/extension"
	link_all "$sharedir/extension" "$share/extension"
	chmod -R a+rX "$target"
	printf '%s\n' "$stamp" > "$target/.stamp"
fi

# The extension, each file renamed into place: a server that is running keeps the old library open.
put()
{
	cmp -s "$1" "$2/${1##*/}" && return
	cp "$1" "$2/.new.$$"
	chmod a+r "$2/.new.$$"
	mv -f "$2/.new.$$" "$2/${1##*/}"
}
put "$ext/pg_broker.so" "$lib"
for f in "$ext"/pg_broker.control "$ext"/pg_broker--*.sql; do
	put "$f" "$share/extension"
done

echo "$bin"
