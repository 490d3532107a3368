/*
 * test_replica_session.c: what a follower's connection fetches: whose progress counts, what is due, and what is behind.
 * The leader is broker 1 of cluster_fixture.h; the session is broker 3's.
 */
#include "brokerd/api/replica_session.h"
#include "regress/unit/cluster/cluster_fixture.h"

typedef struct Test
{
	Fixture f;
	Broker broker;
	ReplicaSession *session;
} Test;

static bool
test_init(Test *t)
{
	if (!fixture_init(&t->f, 60000))
		return false;
	t->broker = (Broker){.partitions = t->f.table};
	t->session = replica_session_new(&t->broker, 3, 13);
	return t->session != NULL;
}

static void
test_free(Test *t)
{
	replica_session_free(t->session);
	fixture_free(&t->f);
}

/* The follower names a partition of topic "t". */
static ReplicaPart *
name(Test *t, int32_t partition, int32_t leader_epoch, int32_t last_epoch, int64_t offset)
{
	FetchRequestTopicsPartitions want = {.partition = partition,
										 .current_leader_epoch = leader_epoch,
										 .last_fetched_epoch = last_epoch,
										 .fetch_offset = offset,
										 .partition_max_bytes = 1 << 20,
										 .read_high_watermark = -1};
	ReplicaKey key = {fixture_topic, partition};

	replica_session_put(t->session, &fixture_topic, &want);
	return replica_session_find(t->session, &key);
}

static int
count_due(const ReplicaSession *s)
{
	int n = 0;

	for (const ReplicaPart *part = s->due; part != NULL; part = part->due_next)
		n++;
	return n;
}

/* What the leader knows of broker 3; -1: nothing. */
static int64_t
progress(const Test *t, int32_t partition)
{
	const Partition *p = fixture_partition(&t->f, partition);

	for (int32_t i = 0; p->lead != NULL && i < p->lead->n; i++)
		if (p->lead->followers[i].id == 3)
			return p->lead->followers[i].synced_end;
	return -2;
}

static void
append(Test *t, int32_t partition, int records)
{
	Partition *p = fixture_partition(&t->f, partition);
	BatchSpec spec = {.records = records};
	LogAppend a = {.transaction_verified = true};
	Owned *o = malloc(sizeof(*o));

	a.records = make_batch(&spec, &a.len);
	*o = (Owned){&t->f.h, a.records};
	a.release = harness_release;
	a.owner = o;
	if (partition_append(p, &a) != KERR_NONE)
		printf("Bail out! no append\n");
	fixture_wait(&t->f, log_synced_end(p->log) >= a.end_offset);
}

static void
test_progress(void)
{
	Test t;
	ReplicaPart *part;
	FetchRequestTopicsPartitions want = {.partition = 0, .current_leader_epoch = 5, .last_fetched_epoch = -1};
	WUuid other = {{9}};
	ReplicaKey other_key = {other, 0};

	if (!test_init(&t))
		return;
	ok(t.session->id > 0, "a session has an id, which is not 0: that is no session");
	part = name(&t, 0, 5, -1, 0);
	ok(part->error == KERR_NONE && !part->divergence.diverged && part->due,
	   "a partition is named: it is due");
	is_int(progress(&t, 0), 0, "and its progress counts");

	part = name(&t, 1, 4, -1, 0);
	is_int(part->error, KERR_FENCED_LEADER_EPOCH, "with an older leader epoch: an error");
	is_int(progress(&t, 1), -1, "and no progress");
	part = name(&t, 1, 6, -1, 0);
	is_int(part->error, KERR_UNKNOWN_LEADER_EPOCH, "with one that is not known yet: an error");
	ok(part->due && count_due(t.session) == 2, "which is due to be told, once");
	part = name(&t, 1, 5, -1, 0);
	ok(part->error == KERR_NONE && progress(&t, 1) == 0, "with the right one: the error is gone");

	part = name(&t, 9, 5, -1, 0);
	ok(part->error == KERR_UNKNOWN_TOPIC_ID && replica_part_partition(part) == NULL, "no such partition");
	part = name(&t, -1, 5, -1, 0);
	is_int(part->error, KERR_UNKNOWN_TOPIC_ID, "a negative one");
	replica_session_put(t.session, &other, &want);
	part = replica_session_find(t.session, &other_key);
	ok(part != NULL && part->error == KERR_UNKNOWN_TOPIC_ID, "no such topic");

	t.session->replica_id = 9;
	part = name(&t, 2, 5, -1, 0);
	is_int(part->error, KERR_NOT_LEADER_OR_FOLLOWER, "a broker that is no replica of it");
	t.session->replica_id = 3;
	fixture_fetched(&t.f, 2, 3, 23, 0);
	part = name(&t, 2, 5, -1, 0);
	is_int(part->error, KERR_NOT_LEADER_OR_FOLLOWER, "a process that another has replaced (A3)");
	test_free(&t);
}

static void
test_divergence(void)
{
	Test t;
	ReplicaPart *part;

	if (!test_init(&t))
		return;
	append(&t, 0, 10);
	part = name(&t, 0, 5, 4, 7);
	ok(part->error == KERR_NONE && part->divergence.diverged && part->divergence.epoch == 4 &&
		   part->divergence.end == 0,
	   "records of an epoch that is not here: told where the logs part");
	is_int(progress(&t, 0), -1, "and no progress: what it has there is something else (A12)");
	part = name(&t, 0, 5, 5, 12);
	ok(part->divergence.diverged && part->divergence.epoch == 5 && part->divergence.end == 10,
	   "more of the epoch than is here");
	is_int(progress(&t, 0), -1, "no progress");
	part = name(&t, 0, 5, -1, 12);
	ok(part->divergence.diverged && part->divergence.end == 10, "more than there is, in no epoch at all");
	is_int(progress(&t, 0), -1, "no progress");
	part = name(&t, 0, 5, 5, 10);
	ok(!part->divergence.diverged && progress(&t, 0) == 10, "cut to that it is at the end, which counts");
	test_free(&t);
}

/* Due again when something moves; a session that waits is woken, once. */
static void
test_due(void)
{
	Test t;
	ReplicaPart *part, *other;
	struct ReplicaFetch *waits;

	if (!test_init(&t))
		return;
	part = name(&t, 0, 5, -1, 0);
	other = name(&t, 1, 5, -1, 0);
	replica_part_quiet(part);
	replica_part_quiet(other);
	replica_part_quiet(other);
	ok(t.session->due == NULL && !part->due, "looked at: nothing is due");
	append(&t, 0, 1);
	ok(part->due && !other->due && count_due(t.session) == 1, "its log moves: it is due, and no other");
	ok(!t.session->woken, "nobody waits, so nobody is woken");

	replica_part_quiet(part);
	waits = (struct ReplicaFetch *) &t;
	t.session->parked = waits;
	append(&t, 0, 1);
	append(&t, 1, 1);
	ok(t.session->woken && t.broker.replica_woken == t.session && t.session->woken_next == NULL,
	   "a fetch that waits: the session is woken once");
	is_int(count_due(t.session), 2, "for all that moved");
	t.session->parked = NULL;
	test_free(&t);
	ok(t.broker.replica_woken == NULL, "a session that goes is not woken any more");
}

static void
test_behind(void)
{
	Test t;
	ReplicaPart *part;

	if (!test_init(&t))
		return;
	part = name(&t, 0, 5, -1, 0);
	replica_part_behind(part, true);
	replica_part_behind(part, true);
	ok(t.session->behind == part && part->behind_next == NULL, "its high watermark is to be told, once");
	append(&t, 0, 10);
	name(&t, 0, 5, 4, 7);
	ok(t.session->behind == NULL,
	   "named anew it is not: where the logs part is told first, and a high watermark is of one log");
	name(&t, 0, 5, -1, 0);
	replica_part_behind(part, true);
	replica_part_behind(part, false);
	ok(t.session->behind == NULL, "told");
	test_free(&t);
}

/* Consumers read at the follower: what it knows itself is what it was told. */
static void
test_read_there(void)
{
	Test t;
	ReplicaPart *part;
	FetchRequestTopicsPartitions want = {
		.partition = 0, .current_leader_epoch = 5, .last_fetched_epoch = -1, .read_high_watermark = 7};

	if (!test_init(&t))
		return;
	part = name(&t, 0, 5, -1, 0);
	ok(!part->read_there && part->told_high_watermark == -1, "nobody reads there: told with the next answer");
	replica_session_put(t.session, &fixture_topic, &want);
	ok(part->read_there && part->told_high_watermark == 7,
	   "somebody does: told as soon as it is another than the one that the follower knows");
	want.read_high_watermark = 0;
	replica_session_put(t.session, &fixture_topic, &want);
	ok(part->read_there && part->told_high_watermark == 0, "also where it knows of nothing yet");
	name(&t, 0, 5, -1, 0);
	ok(!part->read_there, "nobody does any more");
	test_free(&t);
}

static void
test_forgetting(void)
{
	Test t;
	ReplicaPart *part;
	ReplicaKey key = {fixture_topic, 0};

	if (!test_init(&t))
		return;
	part = name(&t, 0, 5, -1, 0);
	name(&t, 1, 5, -1, 0);
	replica_part_behind(part, true);
	replica_session_forget(t.session, &fixture_topic, 0);
	replica_session_forget(t.session, &fixture_topic, 0);
	ok(replica_session_find(t.session, &key) == NULL && t.session->behind == NULL &&
		   count_due(t.session) == 1,
	   "forgotten: neither due nor behind");
	append(&t, 0, 1);
	is_int(count_due(t.session), 1, "and its log moves without it");
	part = name(&t, 0, 5, -1, 0);
	ok(part->told_high_watermark == -1 && !part->answered, "named again it is new");

	part = name(&t, 2, 5, -1, 0);
	replica_part_quiet(part);
	partitions_detach_topic(t.f.table, &fixture_topic);
	ok(part->due && replica_part_partition(part) == NULL, "its topic goes: due, so that it is told");
	replica_session_reset(t.session);
	ok(t.session->parts == NULL && t.session->due == NULL, "a full request begins anew");
	test_free(&t);
}

/* Throttled: due after a while, or earlier when it moves. */
static void
test_held(void)
{
	Test t;
	ReplicaPart *part, *other;

	if (!test_init(&t))
		return;
	t.broker.loop = t.f.loop;
	part = name(&t, 0, 5, -1, 0);
	other = name(&t, 1, 5, -1, 0);
	replica_part_hold(part, 20);
	replica_part_hold(part, 20);
	replica_part_hold(other, 60000);
	ok(t.session->held == part && part->held_next == other && count_due(t.session) == 0,
	   "held: not due, each once");
	append(&t, 1, 1);
	ok(other->due && !other->held, "it moves: looked at, and held again if need be");
	fixture_wait(&t.f, part->due);
	ok(part->due && t.session->held == NULL, "the other when its time has come");
	replica_part_hold(part, INT64_MAX);
	fixture_wait(&t.f, part->due);
	ok(part->due, "which is never far: the rate may be another one by then");
	replica_part_hold(part, 60000);
	replica_session_forget(t.session, &fixture_topic, 0);
	ok(t.session->held == NULL, "forgotten it is held no more");
	replica_part_hold(other, 60000);
	test_free(&t);
}

int
main(void)
{
	test_progress();
	test_divergence();
	test_due();
	test_behind();
	test_read_there();
	test_forgetting();
	test_held();
	return tap_done();
}
