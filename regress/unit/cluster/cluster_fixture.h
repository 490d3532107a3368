/*
 * cluster_fixture.h: broker 1 with real logs, a real metadata image and a PostgreSQL that is played by the test: a
 * call of meta_alter_isr() waits in fixture.meta until the test answers it.  Replication towards leaders is not
 * there: the fetcher is a stub.
 *
 *     fixture_row(&f, ...); fixture_apply(&f)     what the image says from now on
 *     fixture_wait(&f, f.meta.n > 0)              a call is out
 *     answer_row(...); answer(&f, META_OK)        its reply
 */
#ifndef REGRESS_UNIT_CLUSTER_FIXTURE_H
#define REGRESS_UNIT_CLUSTER_FIXTURE_H

#include <ev.h>
#include <stddef.h>

#include "brokerd/cluster/isr_changes.h"
#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/replication.h"
#include "brokerd/meta/topic_config.h"
#include "regress/unit/storage/harness.h"

enum
{
	ME = 1,
	CHANGES_MAX = 64,
	MEMBERS_MAX = 8,
	PARTITIONS = 4
};

/* ---- PostgreSQL, as the test plays it ---- */

typedef struct Change
{
	int32_t partition, leader_epoch, partition_epoch;
	int32_t isr[MEMBERS_MAX];
	int64_t epochs[MEMBERS_MAX];
	int n_isr;
} Change;

typedef struct ReplyRow
{
	bool landed;
	int32_t leader, leader_epoch, partition_epoch;
	int32_t isr[MEMBERS_MAX];
	int n_isr;
} ReplyRow;

struct MetaResult
{
	MetaStatus status;
	ReplyRow rows[CHANGES_MAX];
	int n_rows;
};

struct Meta
{
	int calls;     /* so far */
	int refreshes; /* asked for */
	/* the call that is out; n 0: none */
	Change changes[CHANGES_MAX];
	int n;
	MetaCallDone done;
	void *ctx;
};

void
meta_alter_isr(Meta *m, const MetaIsrChange *changes, int n, int64_t deadline, MetaCallDone done, void *ctx)
{
	(void) deadline;
	if (m->n > 0)
		printf("Bail out! two calls at a time\n");
	m->calls++;
	m->n = n < CHANGES_MAX ? n : CHANGES_MAX;
	m->done = done;
	m->ctx = ctx;
	for (int i = 0; i < m->n; i++)
	{
		Change *c = &m->changes[i];

		*c = (Change){.partition = changes[i].partition,
					  .leader_epoch = changes[i].leader_epoch,
					  .partition_epoch = changes[i].partition_epoch,
					  .n_isr = changes[i].n_isr};
		memcpy(c->isr, changes[i].isr, sizeof(*c->isr) * (size_t) c->n_isr);
		memcpy(c->epochs, changes[i].epochs, sizeof(*c->epochs) * (size_t) c->n_isr);
	}
}

void
meta_refresh(Meta *m)
{
	m->refreshes++;
}

MetaStatus
meta_result_status(const MetaResult *r)
{
	return r->status;
}

int
meta_result_rows(const MetaResult *r)
{
	return r->n_rows;
}

const char *
meta_result_message(const MetaResult *r)
{
	(void) r;
	return "as the test says";
}

bool
meta_result_bool(const MetaResult *r, int row, int column)
{
	return column == 2 && r->rows[row].landed;
}

int64_t
meta_result_int(const MetaResult *r, int row, int column)
{
	return column == 3   ? r->rows[row].leader
		   : column == 4 ? r->rows[row].leader_epoch
						 : r->rows[row].partition_epoch;
}

const char *
meta_result_text(const MetaResult *r, int row, int column)
{
	(void) r;
	(void) row;
	(void) column;
	return "{...}";
}

int
meta_result_ints(const MetaResult *r, int row, int column, int32_t *out, int max)
{
	(void) column;
	for (int i = 0; i < r->rows[row].n_isr && i < max; i++)
		out[i] = r->rows[row].isr[i];
	return r->rows[row].n_isr;
}

/* ---- no follower here ---- */

void
fetcher_follow(Fetcher *fetcher, Partition *p, bool in_isr)
{
	(void) fetcher;
	(void) p;
	(void) in_isr;
}

void
fetcher_unfollow(Partition *p)
{
	(void) p;
}

int16_t
fetcher_check_reader(const Partition *p)
{
	(void) p;
	return KERR_NOT_LEADER_OR_FOLLOWER;
}

int16_t
fetcher_check_offset(const Partition *p, int64_t offset)
{
	(void) p;
	(void) offset;
	return KERR_OFFSET_OUT_OF_RANGE;
}

void
fetcher_note_reader(Partition *p)
{
	(void) p;
}

void
fetcher_log_changed(Partition *p)
{
	(void) p;
}

/* ---- the broker ---- */

typedef struct Fixture
{
	Harness h;
	struct ev_loop *loop;
	BrokerConfig config;
	TopicConfigs *configs;
	MetaImage *image;
	Meta meta;
	Replication replication;
	PartitionTable *table;
	/* the rows of topic "t" */
	struct
	{
		int32_t leader, leader_epoch, partition_epoch;
		int32_t replicas[MEMBERS_MAX], isr[MEMBERS_MAX];
		int n_replicas, n_isr;
	} rows[PARTITIONS];
	int64_t version;
	int64_t last_fetch_ms[10]; /* by broker id; boot clock */
	MetaResult reply;
} Fixture;

/* Of the process that fetched last, whatever it asked for. */
int64_t replication_last_fetch_ms(const Replication *r, int32_t broker, int64_t broker_epoch);

int64_t
replication_last_fetch_ms(const Replication *r, int32_t broker, int64_t broker_epoch)
{
	const Fixture *f = (const Fixture *) ((const char *) r - offsetof(Fixture, replication));

	(void) broker_epoch;
	return f->last_fetch_ms[broker];
}

static const WUuid fixture_topic = {{0x74, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15}};

static void
fixture_log_changed(void *ctx, Log *log)
{
	Fixture *f = ctx;

	f->h.changes++;
	partitions_log_changed(f->table, log);
}

static void
put_int32(uint8_t **p, int32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		*(*p)++ = (uint8_t) ((uint32_t) v >> shift);
}

static void
put_ids(uint8_t **p, const int32_t *ids, int n)
{
	put_int32(p, n);
	for (int i = 0; i < n; i++)
		put_int32(p, ids[i]);
}

/* The rows into the image, and the image into the table. */
static void
fixture_apply(Fixture *f)
{
	uint8_t packed[1024], *p = packed;
	MetaTopicRow row = {.name = "t", .name_len = 1, .id = fixture_topic, .version = ++f->version};
	Err err = {0};

	for (int i = 0; i < PARTITIONS; i++)
	{
		put_int32(&p, i);
		put_int32(&p, f->rows[i].leader);
		put_int32(&p, f->rows[i].leader_epoch);
		put_int32(&p, f->rows[i].partition_epoch);
		put_ids(&p, f->rows[i].replicas, f->rows[i].n_replicas);
		put_ids(&p, f->rows[i].isr, f->rows[i].n_isr);
		put_ids(&p, NULL, 0); /* adding */
		put_ids(&p, NULL, 0); /* removing */
		put_ids(&p, NULL, 0); /* eligible */
	}
	row.partitions = packed;
	row.partitions_len = (size_t) (p - packed);
	if (!meta_image_apply_topic(f->image, &row, &err))
		printf("Bail out! %s\n", err.text);
	partitions_apply_topic(f->table, meta_image_topic_by_id(f->image, &fixture_topic));
	while (partitions_make_logs(f->table))
		;
	meta_image_forget_changes(f->image);
}

#define fixture_isr(f, i, ...)                                                                               \
	do                                                                                                       \
	{                                                                                                        \
		const int32_t fi_ids[] = {__VA_ARGS__};                                                              \
		memcpy((f)->rows[i].isr, fi_ids, sizeof(fi_ids));                                                    \
		(f)->rows[i].n_isr = (int) (sizeof(fi_ids) / sizeof(*fi_ids));                                       \
	} while (0)

static void
fixture_broker(Fixture *f, int32_t id, int64_t epoch, MetaBrokerState state)
{
	MetaBrokerRow row = {
		.id = id, .epoch = epoch, .state = state, .endpoints_json = "[]", .version = ++f->version};
	Err err = {0};

	if (!meta_image_apply_broker(f->image, &row, &err))
		printf("Bail out! %s\n", err.text);
	meta_image_forget_changes(f->image);
}

/* Brokers 1, 2, 3 in epochs 11, 12, 13; all partitions led here in epoch 5 at @1, ISR {1, 2}, min.insync.replicas 2. */
__attribute__((unused)) static bool
fixture_init(Fixture *f, int lag_max_ms)
{
	static const int32_t replicas[] = {1, 2, 3};

	memset(f, 0, sizeof(*f));
	harness_init(&f->h, "cluster");
	f->h.opt.on_change = fixture_log_changed;
	config_init(&f->config);
	f->config.node_id = ME;
	f->config.replica_lag_time_max_ms = lag_max_ms;
	f->configs = topic_configs_new(&f->config);
	f->image = meta_image_new();
	f->loop = ev_loop_new(EVFLAG_AUTO);
	if (!harness_open(&f->h))
		return false;
	/* What its callbacks get is the fixture: its first member is the harness. */
	f->table = partitions_new(&(PartitionOptions){
		.node_id = ME, .configs = f->configs, .image = f->image, .logs = f->h.m, .make_logs_ms = 2000});
	f->replication.opt =
		(ReplicationOptions){.loop = f->loop, .config = &f->config, .table = f->table, .meta = &f->meta};
	f->replication.broker_epoch = 11;
	f->replication.isr_changes = isr_changes_new(f->loop, &f->meta, f->table);
	partitions_set_replication(f->table, &f->replication);
	for (size_t id = 0; id < sizeof(f->last_fetch_ms) / sizeof(f->last_fetch_ms[0]); id++)
		f->last_fetch_ms[id] = -1;
	for (int32_t id = 1; id <= 3; id++)
		fixture_broker(f, id, 10 + id, META_BROKER_ALIVE);
	for (int i = 0; i < PARTITIONS; i++)
	{
		f->rows[i].leader = ME;
		f->rows[i].leader_epoch = 5;
		f->rows[i].partition_epoch = 1;
		memcpy(f->rows[i].replicas, replicas, sizeof(replicas));
		f->rows[i].n_replicas = 3;
		fixture_isr(f, i, 1, 2);
	}
	fixture_apply(f);
	return true;
}

/* ---- replies ---- */

/* The next row of the reply: what partition's change became. */
#define answer_row(f, is_landed, its_leader, its_leader_epoch, epoch, ...)                                   \
	do                                                                                                       \
	{                                                                                                        \
		const int32_t ar_ids[] = {__VA_ARGS__};                                                              \
		ReplyRow *ar = &(f)->reply.rows[(f)->reply.n_rows++];                                                \
		*ar = (ReplyRow){.landed = (is_landed),                                                              \
						 .leader = (its_leader),                                                             \
						 .leader_epoch = (its_leader_epoch),                                                 \
						 .partition_epoch = (epoch),                                                         \
						 .n_isr = (int) (sizeof(ar_ids) / sizeof(*ar_ids))};                                 \
		memcpy(ar->isr, ar_ids, sizeof(ar_ids));                                                             \
	} while (0)

static void
answer(Fixture *f, MetaStatus status)
{
	f->reply.status = status;
	f->meta.n = 0;
	f->meta.done(f->meta.ctx, &f->reply);
	f->reply.n_rows = 0;
}

__attribute__((unused)) static void
fixture_free(Fixture *f)
{
	partitions_set_replication(f->table, NULL);
	isr_changes_free(f->replication.isr_changes);
	if (f->meta.n > 0)
		answer(f, META_UNKNOWN); /* as meta_free() does it */
	partitions_free(f->table);
	harness_close(&f->h);
	harness_remove(f->h.dir);
	ev_loop_destroy(f->loop);
	meta_image_free(f->image);
	topic_configs_free(f->configs);
	config_free(&f->config);
}

__attribute__((unused)) static void
fixture_turn(Fixture *f)
{
	harness_turn(&f->h);
	ev_run(f->loop, EVRUN_NOWAIT);
}

#define fixture_wait(f, cond)                                                                                \
	do                                                                                                       \
	{                                                                                                        \
		int64_t fw_until = clock_boot_ms() + 10000;                                                          \
		while (!(cond) && clock_boot_ms() < fw_until)                                                        \
			fixture_turn(f);                                                                                 \
	} while (0)

__attribute__((unused)) static Partition *
fixture_partition(const Fixture *f, int i)
{
	return partitions_find(f->table, WSTR_LIT("t"), i);
}

/* A fetch of `id` arrived that has all below `offset`. */
__attribute__((unused)) static int16_t
fixture_fetched(Fixture *f, int i, int32_t id, int64_t broker_epoch, int64_t offset)
{
	f->last_fetch_ms[id] = clock_boot_ms();
	return partition_follower_fetched(f->table, fixture_partition(f, i), id, broker_epoch, 0, offset);
}

#endif
