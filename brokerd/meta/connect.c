/*
 * connect.c: connecting on a helper thread.
 */
#include "brokerd/meta/connect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/meta/image_internal.h"

enum
{
	RUNNING,
	DONE,     /* the loop frees */
	ABANDONED /* the thread frees */
};

struct MetaConnect
{
	atomic_int state;
	pthread_t thread;
	char *conninfo;
	int first;
	char *application_name;
	struct ev_loop *loop;
	ev_async *wake;
	PGconn *conn;
	Err err;
};

/* One line without the newline that libpq ends its messages with. */
static void
set_message(Err *err, const char *text)
{
	char *w;

	while (*text == '\n' || *text == ' ')
		text++;
	err_set(err, 0, 0, "%s", text);
	for (w = err->text; *w != '\0'; w++)
		if (*w == '\n' || *w == '\t')
			*w = ' ';
	while (w > err->text && w[-1] == ' ')
		*--w = '\0';
}

/* "a,b,c" from the one at `first` on: "b,c,a".  NULL: there is nothing to turn. */
static char *
turn_list(const char *list, int first)
{
	const char *from = list;
	char *out;
	int n = 1;

	for (const char *p = list; p != NULL && *p != '\0'; p++)
		n += *p == ',';
	if (n == 1 || first % n == 0)
		return NULL;
	for (first %= n; first > 0; first--)
		from += strcspn(from, ",") + 1;
	out = meta_alloc(strlen(list) + 1);
	(void) snprintf(out, strlen(list) + 1, "%s,%.*s", from, (int) (from - list - 1), list);
	return out;
}

/* The lists of hosts, addresses and ports of a connection string, turned. */
static void
turn_hosts(const char *conninfo, int first, char *turned[3])
{
	static const char *const lists[] = {"host", "hostaddr", "port"};
	PQconninfoOption *options = first > 0 ? PQconninfoParse(conninfo, NULL) : NULL;

	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
		for (int i = 0; i < 3; i++)
			if (strcmp(o->keyword, lists[i]) == 0 && o->val != NULL)
				turned[i] = turn_list(o->val, first);
	PQconninfoFree(options);
}

static PGconn *
connect_to(const char *conninfo, int first, const char *application_name, Err *err)
{
	/* Before dbname: what the connection string may change.  Behind it: what it may not; NULL changes nothing. */
	static const char *const keywords[] = {"connect_timeout",
										   "keepalives_idle",
										   "keepalives_interval",
										   "keepalives_count",
										   "tcp_user_timeout",
										   "dbname",
										   "target_session_attrs",
										   "client_encoding",
										   "application_name",
										   "host",
										   "hostaddr",
										   "port",
										   NULL};
	char *turned[3] = {NULL, NULL, NULL};
	PGconn *conn;

	turn_hosts(conninfo, first, turned);
	{
		const char *const values[] = {
			"3",       "5",       "2",       "3", "10000", conninfo, "read-write", "UTF8", application_name,
			turned[0], turned[1], turned[2], NULL};

		conn = PQconnectdbParams(keywords, values, 1);
	}
	for (int i = 0; i < 3; i++)
		free(turned[i]);
	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	set_message(err, PQerrorMessage(conn));
	PQfinish(conn);
	return NULL;
}

PGconn *
meta_connect_now(const char *conninfo, const char *application_name, Err *err)
{
	return connect_to(conninfo, 0, application_name, err);
}

static void
free_connect(MetaConnect *connect)
{
	PQfinish(connect->conn);
	free(connect->conninfo);
	free(connect->application_name);
	free(connect);
}

static void *
connect_main(void *arg)
{
	MetaConnect *connect = arg;
	int expected = RUNNING;

	connect->conn = connect_to(connect->conninfo, connect->first, connect->application_name, &connect->err);
	if (atomic_compare_exchange_strong(&connect->state, &expected, DONE))
		/* The loop joins this thread before it frees anything, so both still live here. */
		ev_async_send(connect->loop, connect->wake);
	else
		free_connect(connect);
	return NULL;
}

MetaConnect *
meta_connect_start(const char *conninfo, int first, const char *application_name, struct ev_loop *loop,
				   ev_async *wake, Err *err)
{
	MetaConnect *connect = meta_alloc(sizeof(*connect));
	pthread_attr_t attr;
	int rc;

	atomic_init(&connect->state, RUNNING);
	connect->conninfo = meta_strndup(conninfo, strlen(conninfo));
	connect->first = first;
	connect->application_name = meta_strndup(application_name, strlen(application_name));
	connect->loop = loop;
	connect->wake = wake;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	rc = pthread_create(&connect->thread, &attr, connect_main, connect);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return connect;
	free_connect(connect);
	err_set(err, 0, rc, "cannot start a thread that connects to PostgreSQL: %s", strerror(rc));
	return NULL;
}

bool
meta_connect_is_done(const MetaConnect *connect)
{
	return atomic_load(&connect->state) == DONE;
}

PGconn *
meta_connect_take(MetaConnect *connect, Err *err)
{
	PGconn *conn;

	pthread_join(connect->thread, NULL);
	conn = connect->conn;
	connect->conn = NULL;
	if (conn == NULL && err != NULL)
		*err = connect->err;
	free_connect(connect);
	return conn;
}

void
meta_connect_abandon(MetaConnect *connect)
{
	int expected = RUNNING;
	pthread_t thread = connect->thread;

	if (atomic_compare_exchange_strong(&connect->state, &expected, ABANDONED))
		pthread_detach(thread);
	else
	{
		pthread_join(thread, NULL);
		free_connect(connect);
	}
}
