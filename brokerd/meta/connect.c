/*
 * connect.c: connecting on a helper thread.
 */
#include "brokerd/meta/connect.h"

#include <pthread.h>
#include <stdatomic.h>
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

PGconn *
meta_connect_now(const char *conninfo, const char *application_name, Err *err)
{
	/* Before dbname: what the connection string may change.  Behind it: what it may not. */
	static const char *const keywords[] = {"connect_timeout",      "keepalives_idle",
										   "keepalives_interval",  "keepalives_count",
										   "tcp_user_timeout",     "dbname",
										   "target_session_attrs", "client_encoding",
										   "application_name",     NULL};
	const char *const values[] = {
		"3", "5", "2", "3", "10000", conninfo, "read-write", "UTF8", application_name, NULL};
	PGconn *conn = PQconnectdbParams(keywords, values, 1);

	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	set_message(err, PQerrorMessage(conn));
	PQfinish(conn);
	return NULL;
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

	connect->conn = meta_connect_now(connect->conninfo, connect->application_name, &connect->err);
	if (atomic_compare_exchange_strong(&connect->state, &expected, DONE))
		/* The loop joins this thread before it frees anything, so both still live here. */
		ev_async_send(connect->loop, connect->wake);
	else
		free_connect(connect);
	return NULL;
}

MetaConnect *
meta_connect_start(const char *conninfo, const char *application_name, struct ev_loop *loop, ev_async *wake,
				   Err *err)
{
	MetaConnect *connect = meta_alloc(sizeof(*connect));
	pthread_attr_t attr;
	int rc;

	atomic_init(&connect->state, RUNNING);
	connect->conninfo = meta_strndup(conninfo, strlen(conninfo));
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
