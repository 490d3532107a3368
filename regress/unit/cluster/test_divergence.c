/*
 * test_divergence.c: what a leader says of epochs and of where a follower's log parts from its own.  Its log is a real
 * one: the epochs as partition.h's picture has them, 3 from 0, 5 from 40, in office in epoch 8, log end 70.
 */
#include "brokerd/cluster/partition.h"
#include "regress/unit/storage/harness.h"

static void
append_epoch(Harness *h, Log *log, int32_t epoch, int records)
{
	Err err = {0};
	BatchSpec spec = {.records = records};

	if (!log_begin_epoch(log, epoch, &err) || !harness_append_synced(h, log, &spec))
		printf("Bail out! %s\n", err.text);
}

static void
test_epoch_end(const Partition *p)
{
	static const struct
	{
		int32_t asked, found;
		int64_t end;
	} cases[] = {
		{8, 8, 70},
		{7, 5, 70},
		{6, 5, 70},
		{5, 5, 70},
		{4, 3, 40},
		{3, 3, 40},
		/* Older than all: its records are gone, what is here begins behind it. */
		{2, 2, 0},
		{9, -1, -1},
		{-1, -1, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int32_t found = -2;
		int64_t end = -2;

		partition_epoch_end(p, cases[i].asked, &found, &end);
		ok(found == cases[i].found && end == cases[i].end, "epoch %d ends as (%d, %" PRId64 ")",
		   cases[i].asked, cases[i].found, cases[i].end);
	}
}

static void
test_divergence(const Partition *p)
{
	static const struct
	{
		const char *name;
		int32_t last_epoch;
		int64_t offset;
		int16_t error;
		bool diverged;
		int32_t epoch;
		int64_t end;
	} cases[] = {
		{"at the end", 5, 70, 0, false, 5, 70},
		{"behind, within an epoch", 5, 50, 0, false, 5, 70},
		{"behind, at the end of an older epoch", 3, 40, 0, false, 3, 40},
		{"more of the latest epoch than is here", 5, 71, 0, true, 5, 70},
		{"more of an older epoch than is here", 3, 41, 0, true, 3, 40},
		{"an epoch that is not here, between two", 4, 45, 0, true, 3, 40},
		{"an epoch that is not here, behind the latest", 6, 60, 0, true, 5, 70},
		{"the epoch in office, of which nothing is written", 8, 70, 0, false, 8, 70},
		{"an empty log", -1, 0, 0, false, 0, 0},
		{"older than all", 1, 5, 0, true, 1, 0},
		{"an epoch that is not yet", 9, 70, KERR_OFFSET_OUT_OF_RANGE, false, -1, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Divergence d = {0};
		int16_t error = partition_divergence(p, cases[i].last_epoch, cases[i].offset, &d);

		ok(error == cases[i].error && d.diverged == cases[i].diverged &&
			   (!d.diverged || (d.epoch == cases[i].epoch && d.end == cases[i].end)),
		   "%s: %s", cases[i].name, cases[i].diverged ? "they part" : "they do not part");
	}
}

/* A leader that has nothing has an answer all the same: else a longer log could never follow it again. */
static void
test_empty(const Partition *p)
{
	Divergence d = {0};

	ok(partition_divergence(p, 6, 5, &d) == KERR_NONE && d.diverged && d.epoch == 6 && d.end == 0,
	   "an empty leader: what a follower has of an earlier epoch goes");
	ok(partition_divergence(p, 8, 0, &d) == KERR_NONE && !d.diverged, "an empty leader: at its end");
	ok(partition_divergence(p, 9, 1, &d) == KERR_OFFSET_OUT_OF_RANGE,
	   "an empty leader: an epoch that is not yet");
	ok(partition_divergence(p, -1, 0, &d) == KERR_NONE && !d.diverged, "both empty");
}

int
main(void)
{
	Harness h;
	Partition p = {.leader_epoch = 8, .leading = true}, empty = {.leader_epoch = 8, .leading = true};

	harness_init(&h, "divergence");
	if (!harness_open(&h))
		return 1;
	p.log = harness_log(&h, "t", 0);
	append_epoch(&h, p.log, 3, 40);
	append_epoch(&h, p.log, 5, 30);
	test_epoch_end(&p);
	test_divergence(&p);
	empty.log = harness_log(&h, "t", 1);
	test_empty(&empty);
	harness_close(&h);
	harness_remove(h.dir);
	return tap_done();
}
