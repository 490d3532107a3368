/*
 * test_leadership.c: a leader's followers and the changes of its ISR, with a PostgreSQL that answers late, refuses, or
 * is not heard of (cluster_fixture.h).
 */
#include "regress/unit/cluster/cluster_fixture.h"

/* A call of one change of partition `i` that wants exactly this ISR. */
static bool
asks_for(const Fixture *f, int32_t i, int32_t partition_epoch, int n, const int32_t *isr)
{
	const Change *c = &f->meta.changes[0];

	return f->meta.n == 1 && c->partition == i && c->leader_epoch == 5 &&
		   c->partition_epoch == partition_epoch && c->n_isr == n &&
		   memcmp(c->isr, isr, sizeof(*isr) * (size_t) n) == 0;
}

#define asks(f, i, epoch, ...)                                                                               \
	asks_for(f, i, epoch, (int) (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),                        \
			 (int32_t[]){__VA_ARGS__})

static Follower *
follower(Partition *p, int32_t id)
{
	for (int32_t i = 0; i < p->lead->n; i++)
		if (p->lead->followers[i].id == id)
			return &p->lead->followers[i];
	return NULL;
}

/* Would the high watermark wait for it? */
static bool
counts(Partition *p, int32_t id)
{
	HwReplica ends[META_MAX_LIST];
	int n = leadership_ends(p->lead, ends);

	for (int i = 0; i < n; i++)
		if (p->lead->followers[i].id == id)
			return ends[i].counts;
	return false;
}

static int16_t
fetched(Fixture *f, int i, int32_t id, int64_t offset)
{
	return fixture_fetched(f, i, id, 10 + id, offset);
}

/* Broker 3 has fetched all there is; a change is out that adds it. */
static Partition *
ask_to_add(Fixture *f)
{
	fetched(f, 0, 3, 0);
	fixture_wait(f, f->meta.n > 0);
	return fixture_partition(f, 0);
}

static bool
append(Fixture *f, Partition *p, int records)
{
	BatchSpec spec = {.records = records};
	LogAppend a = {.transaction_verified = true};
	Owned *o = malloc(sizeof(*o));

	a.records = make_batch(&spec, &a.len);
	*o = (Owned){&f->h, a.records};
	a.release = harness_release;
	a.owner = o;
	if (partition_append(p, &a) != KERR_NONE)
		return false;
	fixture_wait(f, log_synced_end(p->log) >= a.end_offset);
	return log_synced_end(p->log) >= a.end_offset;
}

/* ---- a change that is answered ---- */

static void
test_lands(void)
{
	Fixture f;
	Partition *p;

	if (!fixture_init(&f, 60000))
		return;
	fetched(&f, 0, 2, 0);
	fixture_turn(&f);
	is_int(f.meta.calls, 0, "a member fetches: nothing changes");
	p = ask_to_add(&f);
	ok(asks(&f, 0, 1, 1, 2, 3),
	   "another replica has all: it is to join, at the partition epoch that is known");
	ok(f.meta.changes[0].epochs[0] == -1 && f.meta.changes[0].epochs[1] == 12 &&
		   f.meta.changes[0].epochs[2] == 13,
	   "with the broker epoch that each fetched with");
	ok(counts(p, 3), "it counts from the moment that it is asked for");
	answer_row(&f, true, ME, 5, 2, 1, 2, 3);
	answer(&f, META_OK);
	ok(p->partition_epoch == 2 && p->isr_size == 3 && follower(p, 3)->in_isr && !follower(p, 3)->adding,
	   "it landed: the row as it is now");
	f.rows[0].partition_epoch = 1;
	fixture_apply(&f);
	ok(p->partition_epoch == 2 && follower(p, 3)->in_isr, "an older image is no news (A2)");
	fixture_turn(&f);
	is_int(f.meta.calls, 1, "and nothing more is asked");
	fixture_free(&f);
}

static void
test_refused(void)
{
	Fixture f;
	Partition *p;
	int64_t asked;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	asked = clock_boot_ms();
	answer_row(&f, false, ME, 5, 1, 1, 2);
	answer(&f, META_OK);
	ok(!counts(p, 3) && p->partition_epoch == 1, "refused, the row unchanged: it does not count");
	fetched(&f, 0, 3, 0);
	fixture_turn(&f);
	is_int(f.meta.calls, 1, "it is not asked for again at once");
	while (f.meta.n == 0 && clock_boot_ms() < asked + 10000)
	{
		fetched(&f, 0, 3, 0);
		fixture_turn(&f);
	}
	ok(f.meta.calls == 2 && clock_boot_ms() - asked >= 500, "but after half a second");
	answer_row(&f, false, ME, 5, 4, 1);
	answer(&f, META_OK);
	ok(p->partition_epoch == 4 && p->isr_size == 1 && !follower(p, 2)->in_isr,
	   "refused, as the row is another by now: that row counts");
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 4, 1, 3), "and the next change is one of it");
	answer(&f, META_ERROR);
	ok(!counts(p, 3), "an error: nothing was written, it does not count");
	fixture_free(&f);
}

/* ---- a change of which nothing is known ---- */

static void
test_unknown_settled_by_own(void)
{
	Fixture f;
	Partition *p;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	answer(&f, META_UNKNOWN);
	ok(p->lead->unsettled && counts(p, 3), "no reply: it goes on to count (A2)");
	f.rows[0].partition_epoch = 1;
	fixture_apply(&f);
	ok(p->lead->unsettled && counts(p, 3), "that the row looks unchanged settles nothing");
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 1, 1, 2), "the ISR as it is confirmed is asked for, at the same partition epoch");
	answer_row(&f, false, ME, 5, 1, 1, 2);
	answer(&f, META_OK);
	ok(p->lead->unsettled && counts(p, 3), "refused at that epoch: still not settled");
	fixture_wait(&f, f.meta.n > 0);
	answer(&f, META_UNKNOWN);
	ok(p->lead->unsettled && counts(p, 3), "nor by another that is not answered");
	fixture_wait(&f, f.meta.n > 0);
	answer_row(&f, true, ME, 5, 2, 1, 2);
	answer(&f, META_OK);
	ok(!p->lead->unsettled && p->partition_epoch == 2, "it lands: what was sent before cannot any more");
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 2, 1, 2, 3), "and what was wanted is asked for again");
	fixture_free(&f);
}

static void
test_unknown_settled_by_image(void)
{
	Fixture f;
	Partition *p;
	int calls;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	answer(&f, META_UNKNOWN);
	f.rows[0].partition_epoch = 2;
	fixture_isr(&f, 0, 1, 2, 3);
	fixture_apply(&f);
	ok(!p->lead->unsettled && follower(p, 3)->in_isr && p->partition_epoch == 2,
	   "a higher partition epoch settles it: it had landed");
	calls = f.meta.calls;
	for (int i = 0; i < 40; i++)
		fixture_turn(&f);
	is_int(f.meta.calls, calls, "and nothing more is asked");

	/* In flight, and the image is ahead of the reply. */
	fetched(&f, 1, 3, 0);
	fixture_wait(&f, f.meta.n > 0);
	p = fixture_partition(&f, 1);
	f.rows[1].partition_epoch = 2;
	fixture_isr(&f, 1, 1, 2, 3);
	fixture_apply(&f);
	answer(&f, META_UNKNOWN);
	ok(!p->lead->unsettled && follower(p, 3)->in_isr,
	   "lost after the image showed that it landed: settled, too");
	fixture_free(&f);
}

/* The hole that the model checker found: C was added, and leads by now. */
static void
test_unknown_and_replaced(void)
{
	Fixture f;
	Partition *p;
	int refreshes;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	answer(&f, META_UNKNOWN);
	fixture_wait(&f, f.meta.n > 0);
	refreshes = f.meta.refreshes;
	answer_row(&f, false, 3, 6, 3, 1, 2, 3);
	answer(&f, META_OK);
	ok(p->leading && counts(p, 3),
	   "another leads, by the reply: whom the change may have added still counts");
	is_int(f.meta.refreshes, refreshes + 1, "and the metadata is read");
	f.rows[0].leader = 3;
	f.rows[0].leader_epoch = 6;
	f.rows[0].partition_epoch = 3;
	fixture_isr(&f, 0, 1, 2, 3);
	fixture_apply(&f);
	ok(!p->leading && p->lead == NULL, "which ends the leadership");
	fixture_free(&f);
}

static void
test_unknown_and_resigned(void)
{
	Fixture f;
	Partition *p;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	answer(&f, META_UNKNOWN);
	partitions_resign(f.table);
	ok(!p->leading, "the broker's epoch is gone: it leads nothing");
	partitions_apply_all(f.table);
	ok(p->leading && counts(p, 3),
	   "the same epoch again, the same leadership: what it had sent still counts");
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 1, 1, 2), "and is settled");
	fixture_free(&f);

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	partitions_resign(f.table);
	partitions_apply_all(f.table);
	answer(&f, META_UNKNOWN);
	ok(p->leading && counts(p, 3), "so when it was under way at that time");
	fixture_free(&f);
}

/* ---- many, and late ---- */

static void
test_batches(void)
{
	Fixture f;

	if (!fixture_init(&f, 60000))
		return;
	for (int i = 0; i < 3; i++)
		fetched(&f, i, 3, 0);
	fixture_wait(&f, f.meta.n > 0);
	ok(f.meta.calls == 1 && f.meta.n == 3, "what one turn wants goes in one call");
	for (int i = 0; i < PARTITIONS; i++)
		fetched(&f, i, 3, 0);
	for (int i = 0; i < 3; i++)
		fixture_turn(&f);
	is_int(f.meta.calls, 1, "while it is out, no other goes");
	answer_row(&f, true, ME, 5, 2, 1, 2, 3);
	answer_row(&f, false, ME, 5, 7, 1, 2);
	answer_row(&f, true, ME, 5, 2, 1, 2, 3);
	answer(&f, META_OK);
	ok(fixture_partition(&f, 0)->isr_size == 3 && fixture_partition(&f, 1)->partition_epoch == 7 &&
		   fixture_partition(&f, 1)->isr_size == 2 && fixture_partition(&f, 2)->isr_size == 3,
	   "each gets its own row of the reply");
	fixture_wait(&f, f.meta.n > 0);
	ok(f.meta.calls == 2 && f.meta.n == 2 && f.meta.changes[0].partition == 3 &&
		   f.meta.changes[1].partition == 1 && f.meta.changes[1].partition_epoch == 7,
	   "then the one that waited, and the one that was refused for an older row");
	fixture_free(&f);
}

static void
test_late_replies(void)
{
	Fixture f;
	Partition *p;

	if (!fixture_init(&f, 60000))
		return;
	p = ask_to_add(&f);
	f.rows[0].leader = 2;
	f.rows[0].leader_epoch = 6;
	f.rows[0].partition_epoch = 2;
	fixture_apply(&f);
	answer_row(&f, true, ME, 5, 2, 1, 2, 3);
	answer(&f, META_OK);
	ok(!p->leading && p->partition_epoch == 2 && p->isr_size == 2,
	   "a reply to a leadership that is over is ignored");
	f.rows[0].leader = ME;
	f.rows[0].leader_epoch = 7;
	f.rows[0].partition_epoch = 3;
	fixture_apply(&f);
	ok(p->leading && !counts(p, 3) && follower(p, 2)->synced_end == -1,
	   "a new leadership knows nothing of its followers");

	fetched(&f, 1, 3, 0);
	fixture_wait(&f, f.meta.n > 0);
	f.rows[1].replicas[2] = 4;
	f.rows[1].partition_epoch = 2;
	fixture_apply(&f);
	p = fixture_partition(&f, 1);
	answer_row(&f, false, ME, 5, 2, 1, 2);
	answer(&f, META_OK);
	ok(p->lead->n == 2 && follower(p, 3) == NULL && follower(p, 4) != NULL && !counts(p, 4),
	   "the replicas change while a change is under way: the one that left is forgotten");

	fetched(&f, 2, 3, 0);
	fixture_wait(&f, f.meta.n > 0);
	partitions_detach_topic(f.table, &fixture_topic);
	answer_row(&f, true, ME, 5, 2, 1, 2, 3);
	answer(&f, META_OK);
	ok(partitions_topic_count(f.table) == 0, "the topic goes while a change is under way");
	fixture_free(&f);

	/* The broker stops while a change is under way. */
	if (!fixture_init(&f, 60000))
		return;
	ask_to_add(&f);
	fixture_free(&f);
	is_int(f.meta.n, 0, "it ends while a change is under way: the reply is ignored");
}

/* ---- who belongs ---- */

static void
test_processes(void)
{
	Fixture f;

	if (!fixture_init(&f, 60000))
		return;
	is_int(fixture_fetched(&f, 0, 9, 19, 0), KERR_NOT_LEADER_OR_FOLLOWER,
		   "a fetch of a broker that is no replica is refused");
	is_int(fixture_fetched(&f, 0, 3, 23, 0), KERR_NONE, "one of a newer process counts");
	fixture_turn(&f);
	is_int(f.meta.calls, 0, "but it does not join before the image shows that process (A3b)");
	is_int(fetched(&f, 0, 3, 0), KERR_NOT_LEADER_OR_FOLLOWER,
		   "one of the process before does not count any more");
	fixture_broker(&f, 3, 23, META_BROKER_FENCED);
	fixture_fetched(&f, 0, 3, 23, 0);
	fixture_turn(&f);
	is_int(f.meta.calls, 0, "nor while that process is fenced");
	fixture_broker(&f, 3, 23, META_BROKER_ALIVE);
	fixture_fetched(&f, 0, 3, 23, 0);
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 1, 1, 2, 3) && f.meta.changes[0].epochs[2] == 23, "then it does, in its own epoch");
	fixture_free(&f);
}

static void
test_leaves(void)
{
	Fixture f;
	Partition *p;
	int64_t before;
	int calls;

	if (!fixture_init(&f, 100))
		return;
	p = fixture_partition(&f, 0);
	ok(append(&f, p, 10), "the leader appends 10");
	is_int(p->high_watermark, 0, "the high watermark waits for a member that was not heard of");
	fetched(&f, 0, 2, 5);
	is_int(p->high_watermark, 5, "and follows it");
	/* It fetches no more; its lag is looked at. */
	while (f.meta.n == 0 && p->lead->retry_ms == 0)
	{
		leadership_consider(f.table, p->lead);
		fixture_turn(&f);
	}
	ok(asks(&f, 0, 1, 1), "behind for longer than replica.lag.time.max.ms: it is to leave");
	ok(counts(p, 2) && p->high_watermark == 5, "until that has landed it counts (A2)");
	answer(&f, META_UNKNOWN);
	ok(counts(p, 2) && p->high_watermark == 5, "also when nobody knows whether it has");
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 1, 1, 2), "which is settled by the ISR as it is confirmed");
	answer_row(&f, false, ME, 5, 2, 1);
	answer(&f, META_OK);
	ok(!counts(p, 2) && p->isr_size == 1, "it had landed");
	is_int(p->high_watermark, 5,
		   "and with one replica in the ISR of two that are needed nothing is committed (A13)");
	ok(!partition_enough_replicas(p), "nor is acks=all taken");
	calls = f.meta.calls;
	for (int i = 0; i < 15; i++)
	{
		leadership_consider(f.table, p->lead);
		fixture_turn(&f);
	}
	is_int(f.meta.calls, calls, "one that hangs right at the high watermark does not join again");
	fetched(&f, 0, 2, 10);
	fixture_wait(&f, f.meta.n > 0);
	ok(asks(&f, 0, 2, 1, 2), "it caught up: it is to join again");
	is_int(p->high_watermark, 5, "which commits nothing before it has landed");
	before = clock_boot_ms();
	answer_row(&f, true, ME, 5, 3, 1, 2);
	answer(&f, META_OK);
	is_int(p->high_watermark, 10, "and then all that both have");
	ok(follower(p, 2)->caught_up_ms >= before, "who joined has that time from then on");
	fixture_free(&f);
}

static void
test_silent_log(void)
{
	Fixture f;
	Partition *p;
	int64_t until;

	if (!fixture_init(&f, 50))
		return;
	p = fixture_partition(&f, 0);
	if (append(&f, p, 3))
		fetched(&f, 0, 2, 3);
	until = clock_boot_ms() + 200;
	while (clock_boot_ms() < until)
	{
		leadership_consider(f.table, p->lead);
		fixture_turn(&f);
	}
	ok(follower(p, 2)->in_isr && f.meta.calls == 0,
	   "at the end of a log that nobody writes to, a member stays");
	until = clock_boot_ms();
	ok(append(&f, p, 1), "then somebody writes");
	ok(follower(p, 2)->caught_up_ms >= until, "and its time begins there");
	fixture_free(&f);
}

/* Whose copying may be throttled: nobody for whom an acks=all waits. */
static void
test_lags(void)
{
	Fixture f;
	Partition *p;

	if (!fixture_init(&f, 60000))
		return;
	p = fixture_partition(&f, 0);
	ok(append(&f, p, 10) && fetched(&f, 0, 2, 10) == KERR_NONE && partition_high_watermark(p) == 10,
	   "broker 2 is in the ISR, ten records are committed");
	ok(!leadership_lags(p->lead, 2), "who is in the ISR does not lag, however far behind");
	fetched(&f, 0, 3, 4);
	ok(leadership_lags(p->lead, 3), "who is not, and lacks some of what is committed, does");
	ok(append(&f, p, 5), "more is written");
	ok(!leadership_lags(p->lead, 2), "broker 2 lacks it");
	fetched(&f, 0, 3, 10);
	ok(!leadership_lags(p->lead, 3) && counts(p, 3),
	   "with all that is committed it does not lag: the high watermark may wait for it from now on");
	ok(!leadership_lags(p->lead, 9) && !leadership_lags(NULL, 3), "nor does who is no replica");
	fixture_free(&f);
}

int
main(void)
{
	test_lands();
	test_refused();
	test_unknown_settled_by_own();
	test_unknown_settled_by_image();
	test_unknown_and_replaced();
	test_unknown_and_resigned();
	test_batches();
	test_late_replies();
	test_processes();
	test_leaves();
	test_silent_log();
	test_lags();
	return tap_done();
}
