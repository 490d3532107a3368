/*
 * fixture.h: a private PostgreSQL with the fake contract (pg.sh, fake.sql), a Meta on a loop, and what it told.
 */
#ifndef REGRESS_UNIT_META_FIXTURE_H
#define REGRESS_UNIT_META_FIXTURE_H

#include <ev.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/meta/meta.h"
#include "regress/unit/tap.h"

#define WAIT_MS 20000

typedef struct Fixture
{
	char dir[64];
	char conninfo[1024];
	struct ev_loop *loop;
	Meta *meta;
	int32_t page; /* partitions a page, 0 = as always */
	/* what it told */
	int registered, fenced, fatal, changes, completes, connections, operations;
	bool connected;
	char sentence[512];
	int64_t epoch;
	bool same_epoch;
	char cluster_id[64];
	size_t secret_len;
	uint8_t secret[8];
	MetaOperation last_operation;
	int new_topics, changed_topics, deleted_topics, gone_topics;
} Fixture;

__attribute__((unused, format(printf, 3, 4))) static bool
fixture_sh(char *out, size_t size, const char *fmt, ...)
{
	char command[4096];
	va_list ap;
	FILE *pipe;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	pipe = popen(command, "r");
	if (pipe == NULL)
		return false;
	n = fread(out, 1, size - 1, pipe);
	while (n > 0 && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
	return pclose(pipe) == 0;
}

#define fixture_run(...)                                                                                     \
	do                                                                                                       \
	{                                                                                                        \
		char fixture_out[1024];                                                                              \
		if (!fixture_sh(fixture_out, sizeof(fixture_out), __VA_ARGS__))                                      \
		{                                                                                                    \
			printf("Bail out! a command of the fixture failed: %s\n", fixture_out);                          \
			exit(1);                                                                                         \
		}                                                                                                    \
	} while (0)

#define PG                  "regress/unit/meta/pg.sh"
#define fixture_sql(f, sql) fixture_run(PG " sql %s \"%s\"", (f)->dir, sql)

/* One value. */
__attribute__((unused)) static const char *
fixture_ask(Fixture *f, const char *sql)
{
	static char out[4096];

	if (!fixture_sh(out, sizeof(out), PG " sql %s \"%s\"", f->dir, sql))
		out[0] = '\0';
	return out;
}

/* ---- callbacks ---- */

static bool
fixture_on_registered(void *ctx, const MetaRegistration *r)
{
	Fixture *f = ctx;

	f->registered++;
	f->epoch = r->broker_epoch;
	f->same_epoch = r->same_epoch;
	snprintf(f->cluster_id, sizeof(f->cluster_id), "%s", r->cluster_id);
	f->secret_len = r->secret_len;
	memcpy(f->secret, r->secret, r->secret_len < sizeof(f->secret) ? r->secret_len : sizeof(f->secret));
	return true;
}

static void
fixture_on_fenced(void *ctx)
{
	((Fixture *) ctx)->fenced++;
}

static void
fixture_on_image(void *ctx, const MetaImage *image, const MetaImageChanges *changes)
{
	Fixture *f = ctx;

	(void) image;
	f->changes++;
	f->completes += changes->complete;
	for (int i = 0; i < changes->n_topics; i++)
	{
		f->new_topics += changes->topics[i].kind == META_TOPIC_NEW;
		f->changed_topics += changes->topics[i].kind == META_TOPIC_CHANGED;
		f->deleted_topics += changes->topics[i].kind == META_TOPIC_DELETED;
		f->gone_topics += changes->topics[i].kind == META_TOPIC_GONE;
	}
}

static void
fixture_on_operations(void *ctx, const MetaOperation *operations, int n)
{
	Fixture *f = ctx;

	if (n == 0)
		return;
	f->operations += n;
	f->last_operation = operations[n - 1];
	f->last_operation.kind = strcmp(operations[n - 1].kind, "delete_records") == 0 ? "delete_records" : "?";
	f->last_operation.topic = f->last_operation.args_json = NULL;
}

static void
fixture_on_fatal(void *ctx, const char *sentence)
{
	Fixture *f = ctx;

	f->fatal++;
	snprintf(f->sentence, sizeof(f->sentence), "%s", sentence);
}

static void
fixture_on_connection(void *ctx, bool connected)
{
	Fixture *f = ctx;

	f->connections++;
	f->connected = connected;
}

/* ---- life ---- */

static void
fixture_remove(Fixture *f)
{
	char out[256];

	if (f->dir[0] != '\0')
		fixture_sh(out, sizeof(out), PG " destroy %s 2>&1", f->dir);
	f->dir[0] = '\0';
}

static Fixture *fixture_current;

static void
fixture_at_exit(void)
{
	if (fixture_current != NULL)
		fixture_remove(fixture_current);
}

/* A server with the fake contract; it goes when the program ends. */
__attribute__((unused)) static void
fixture_init(Fixture *f)
{
	char out[1024];

	memset(f, 0, sizeof(*f));
	snprintf(f->dir, sizeof(f->dir), "/tmp/pgb-meta-XXXXXX");
	if (mkdtemp(f->dir) == NULL)
		f->dir[0] = '\0';
	fixture_current = f;
	atexit(fixture_at_exit);
	log_set_level(getenv("META_TEST_LOG") != NULL ? LOG_DEBUG : LOG_FATAL);
	if (!fixture_sh(out, sizeof(out), PG " start %s %d 2>&1", f->dir, (int) getpid()))
	{
		printf("Bail out! no PostgreSQL: %s\n", out);
		exit(1);
	}
	snprintf(f->conninfo, sizeof(f->conninfo), "%s", out);
	fixture_run(PG " file %s broker regress/unit/meta/fake.sql 2>&1", f->dir);
	f->loop = ev_loop_new(EVFLAG_AUTO);
}

static MetaOptions
fixture_options(Fixture *f, const char *conninfo)
{
	MetaOptions o = {.loop = f->loop,
					 .conninfo = conninfo,
					 .node_id = 1,
					 .rack = "r1",
					 .endpoints_json =
						 "[{\"name\":\"PLAINTEXT\",\"host\":\"h\",\"port\":9092,\"protocol\":\"PLAINTEXT\"}]",
					 .static_json = "{}",
					 .version = "test",
					 .directory_id = {{1, 2, 3}},
					 .disk_epoch = -1,
					 .heartbeat_interval_ms = 50,
					 .session_timeout_ms = 1500,
					 .call_timeout_ms = 5000,
					 .page_partitions = f->page,
					 .callbacks = {.on_registered = fixture_on_registered,
								   .on_fenced = fixture_on_fenced,
								   .on_image_changed = fixture_on_image,
								   .on_operations = fixture_on_operations,
								   .on_fatal = fixture_on_fatal,
								   .on_connection = fixture_on_connection,
								   .ctx = f}};

	return o;
}

__attribute__((unused)) static void
fixture_start(Fixture *f, const char *conninfo)
{
	MetaOptions o = fixture_options(f, conninfo);
	Err err;

	f->registered = f->fenced = f->fatal = f->changes = f->completes = f->connections = f->operations = 0;
	f->new_topics = f->changed_topics = f->deleted_topics = f->gone_topics = 0;
	f->sentence[0] = '\0';
	f->connected = false;
	f->meta = meta_new(&o, &err);
	if (f->meta == NULL)
		printf("# meta_new: %s\n", err.text);
}

__attribute__((unused)) static void
fixture_stop(Fixture *f)
{
	meta_free(f->meta);
	f->meta = NULL;
}

__attribute__((unused)) static void
fixture_done(Fixture *f)
{
	fixture_remove(f);
	ev_loop_destroy(f->loop);
}

/* ---- turning the loop ---- */

static void
fixture_on_turn(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) w;
	(void) events;
}

/* One turn, of at most `ms`. */
static void
fixture_turn(Fixture *f, int ms)
{
	ev_timer timer;

	ev_timer_init(&timer, fixture_on_turn, ms / 1000.0, 0.0);
	ev_now_update(f->loop);
	ev_timer_start(f->loop, &timer);
	ev_run(f->loop, EVRUN_ONCE);
	ev_timer_stop(f->loop, &timer);
}

/* Turn until the condition holds; false after WAIT_MS. */
#define wait_for(f, cond)                                                                                    \
	({                                                                                                       \
		int64_t wait_end = clock_boot_ms() + WAIT_MS;                                                        \
		while (!(cond) && clock_boot_ms() < wait_end)                                                        \
			fixture_turn(f, 20);                                                                             \
		(cond);                                                                                              \
	})

/* The loop turns between two looks, which stop it for as long as psql takes. */
__attribute__((unused)) static bool
fixture_call_is_running(Fixture *f)
{
	for (int i = 0; i < 10; i++)
		fixture_turn(f, 10);
	return strcmp(fixture_ask(f, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
				  "1") == 0;
}

/* ---- calls ---- */

typedef struct Answer
{
	int count;
	MetaStatus status;
	int16_t code;
	int rows;
	char message[256], detail[256], hint[256], text[256];
	bool inside; /* set by the test while it is calling: the callback must not come then */
	bool came_inside;
	int64_t at_ms;
} Answer;

__attribute__((unused)) static void
take_answer(void *ctx, const MetaResult *r)
{
	Answer *a = ctx;

	a->count++;
	a->came_inside = a->came_inside || a->inside;
	a->status = meta_result_status(r);
	a->code = meta_result_kafka_code(r);
	a->rows = meta_result_rows(r);
	snprintf(a->message, sizeof(a->message), "%s", meta_result_message(r));
	snprintf(a->detail, sizeof(a->detail), "%s", meta_result_detail(r) ? meta_result_detail(r) : "");
	snprintf(a->hint, sizeof(a->hint), "%s", meta_result_hint(r) ? meta_result_hint(r) : "");
	snprintf(a->text, sizeof(a->text), "%s", a->rows > 0 ? meta_result_text(r, 0, 0) : "");
	a->at_ms = clock_boot_ms();
}

__attribute__((unused)) static const MetaRequester somebody = {"User:ANONYMOUS", "10.0.0.1"};

#endif
