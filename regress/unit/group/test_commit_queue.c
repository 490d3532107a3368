/* Batches of offset commits: what is sent, in which order, and who is answered what. */
#include <stdlib.h>

#include "brokerd/group/commit_queue.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"

static char answers[65536];

static void
on_answer(void *arg, uint64_t request, int16_t error)
{
	size_t len = strlen(answers);

	(void) arg;
	snprintf(answers + len, sizeof(answers) - len, "%s%d:%d", len > 0 ? " " : "", (int) request, error);
}

static const char *
answered(void)
{
	static char copy[65536];

	snprintf(copy, sizeof(copy), "%s", answers);
	answers[0] = '\0';
	return copy;
}

static void
add(CommitQueue *q, int request, const char *group, int generation, int partition, int64_t offset)
{
	CommitRow row = {{{1}}, partition, offset, -1, WSTR_LIT("m")};
	CommitRequest in = {(uint64_t) request, wstr(group), group[0] % 2, 1, generation, &row, 1};

	commit_queue_add(q, request, &in);
}

/* "group/generation:partition=offset ..." */
static const char *
next(CommitQueue *q)
{
	static char text[65536];
	const CommitBatch *b = commit_queue_next(q);
	size_t len = 0;

	if (b == NULL)
		return "nothing";
	text[0] = '\0';
	for (int i = 0; i < b->row_count; i++)
		len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%.*s/%d:%d=%d", i > 0 ? " " : "",
								 b->rows[i].group_id.len, b->rows[i].group_id.s, b->rows[i].generation,
								 b->rows[i].row->partition, (int) b->rows[i].row->offset);
	return text;
}

static void
batches(void)
{
	CommitQueue *q = commit_queue_new(100, on_answer, NULL);

	is_str(next(q), "nothing", "an empty queue has no batch");
	add(q, 1, "a", 1, 0, 10);
	is_str(next(q), "a/1:0=10", "one commit");
	add(q, 2, "a", 1, 0, 11);
	add(q, 3, "b", 1, 0, 5);
	add(q, 4, "a", 1, 0, 12);
	add(q, 5, "a", 1, 1, 7);
	is_str(next(q), "nothing", "one batch is out at a time");
	ok(commit_queue_has_group(q, WSTR_LIT("b")) && !commit_queue_has_group(q, WSTR_LIT("c")), "who waits");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(answered(), "1:0", "it is answered when it is done");
	is_str(next(q), "a/1:0=12 a/1:1=7 b/1:0=5",
		   "what came meanwhile is the next: the last one of a key, sorted");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(answered(), "2:0 3:0 4:0 5:0", "all of it is answered, also what was overwritten");
	is_int(commit_queue_waiting(q), 0, "nobody waits");
	is_int(commit_queue_oldest(q), INT64_MAX, "nothing is old");

	/* Of two generations of a group SQL takes at most one, so both have to be sent. */
	add(q, 1, "a", 1, 0, 10);
	add(q, 2, "a", 2, 0, 20);
	is_str(next(q), "a/1:0=10 a/2:0=20", "two generations are two keys");
	commit_queue_done(q, COMMIT_DONE, &(CommitRefused){WSTR_LIT("a"), 1, KERR_ILLEGAL_GENERATION}, 1);
	is_str(answered(), "1:22 2:0", "a refusal hits its generation only");
	commit_queue_free(q);

	q = commit_queue_new(2, on_answer, NULL);
	for (int i = 1; i <= 5; i++)
		add(q, i, "a", 1, i, i);
	is_str(next(q), "a/1:1=1 a/1:2=2", "a batch has a most");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(next(q), "a/1:3=3 a/1:4=4", "the rest comes after it");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(next(q), "a/1:5=5", "in order");
	(void) answered();
	commit_queue_free(q);

	/* A request without rows (all its partitions were refused before) is answered all the same. */
	q = commit_queue_new(2, on_answer, NULL);
	commit_queue_add(q, 1, &(CommitRequest){1, WSTR_LIT("a"), 1, 1, 1, NULL, 0});
	is_str(next(q), "", "no rows");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(answered(), "1:0", "no rows");
	commit_queue_free(q);
}

static void
unknown_outcome(void)
{
	CommitQueue *q = commit_queue_new(100, on_answer, NULL);

	add(q, 1, "a", 1, 0, 10);
	(void) next(q);
	add(q, 2, "a", 1, 0, 11);
	commit_queue_done(q, COMMIT_UNKNOWN, NULL, 0);
	is_str(answered(), "", "the connection broke: nobody is answered");
	is_str(next(q), "a/1:0=10", "the same is sent again, and nothing newer with it");
	commit_queue_done(q, COMMIT_UNKNOWN, NULL, 0);
	is_str(next(q), "a/1:0=10", "and again");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(next(q), "a/1:0=11", "then the newer");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(answered(), "1:0 2:0", "each once");
	commit_queue_free(q);
}

/* A20: one row that cannot be written does not hold the others up. */
static void
by_halves(void)
{
	CommitQueue *q = commit_queue_new(100, on_answer, NULL);
	int sent = 0;
	int bad_alone = 0;

	for (int i = 1; i <= 16; i++)
		add(q, i, "a", 1, i, i == 11 ? -999 : i);
	for (;;)
	{
		const CommitBatch *b = commit_queue_next(q);
		bool bad = false;

		if (b == NULL)
			break;
		sent++;
		for (int i = 0; i < b->row_count; i++)
			bad |= b->rows[i].row->offset == -999;
		bad_alone += bad && b->request_count == 1;
		if (sent == 1)
			add(q, 17, "a", 1, 1, 100); /* newer than what is retried: it must go after it */
		commit_queue_done(q, bad ? COMMIT_FAILED : COMMIT_DONE, NULL, 0);
	}
	is_int(bad_alone, 1, "the bad request is found");
	ok(sent <= 11, "by halves: %d batches for 16 requests", sent);
	is_str(answered(), "1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:-1 12:0 13:0 14:0 15:0 16:0 17:0",
		   "all others are committed, in order");
	commit_queue_free(q);
}

static void
giving_up(void)
{
	CommitQueue *q = commit_queue_new(100, on_answer, NULL);

	add(q, 1, "a", 1, 0, 10); /* "a" is of slot 1, "b" of slot 0; added at 1, 2, ... */
	add(q, 2, "b", 1, 0, 10);
	(void) next(q);
	add(q, 3, "a", 1, 0, 11);
	add(q, 4, "a", 1, 0, 12);
	is_int(commit_queue_oldest(q), 1, "the oldest");
	commit_queue_expire(q, 2, KERR_COORDINATOR_NOT_AVAILABLE);
	is_str(answered(), "1:15", "too old: answered, though it is out");
	is_int(commit_queue_oldest(q), 2, "the next oldest");
	commit_queue_done(q, COMMIT_UNKNOWN, NULL, 0);
	is_str(next(q), "b/1:0=10",
		   "it is not sent again: its client may have committed something newer elsewhere");
	commit_queue_expire(q, 4, KERR_COORDINATOR_NOT_AVAILABLE);
	is_str(answered(), "2:15 3:15", "what waits is dropped");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(answered(), "", "nobody is answered twice");
	is_str(next(q), "a/1:0=12", "the younger one goes on");
	commit_queue_done(q, COMMIT_FAILED, NULL, 0);
	is_str(answered(), "4:-1", "alone and failed");

	add(q, 5, "a", 1, 0, 1);
	add(q, 6, "b", 1, 0, 1);
	(void) next(q);
	add(q, 7, "a", 1, 0, 2);
	add(q, 8, "b", 1, 0, 2);
	commit_queue_drop_slot(q, 1, KERR_NOT_COORDINATOR);
	is_str(answered(), "5:16 7:16", "a slot that was lost");
	commit_queue_done(q, COMMIT_FAILED, NULL, 0);
	is_str(next(q), "b/1:0=1", "the other slot's go on");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_str(next(q), "b/1:0=2", "in order");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	(void) answered();
	is_int(commit_queue_waiting(q), 0, "nothing is left");
	commit_queue_free(q);
}

/* The order of commits of one key is kept whatever happens to the batches. */
static void
order_is_kept(void)
{
	CommitQueue *q = commit_queue_new(5, on_answer, NULL);
	int64_t stored[4] = {0};
	uint32_t seed = 7;
	int request = 0;
	int backwards = 0;
	int batches_sent = 0;

	while (request < 20000 || commit_queue_waiting(q) > 0)
	{
		const CommitBatch *b;

		seed = seed * 1664525u + 1013904223u;
		for (uint32_t n = seed >> 29; n > 0 && request < 20000; n--)
		{
			request++;
			add(q, request, "a", 1, request % 4, request);
		}
		b = commit_queue_next(q);
		if (b == NULL)
			continue;
		batches_sent++;
		seed = seed * 1664525u + 1013904223u;
		for (int i = 0; i < b->row_count && (seed >> 28) != 0; i++)
		{
			int64_t *at = &stored[b->rows[i].row->partition];

			/* An unknown outcome may have landed: the same again is no step back. */
			backwards += b->rows[i].row->offset < *at;
			*at = b->rows[i].row->offset;
		}
		commit_queue_done(q, (seed >> 28) < 3 ? COMMIT_UNKNOWN : COMMIT_DONE, NULL, 0);
		answers[0] = '\0';
	}
	ok(batches_sent > 1000, "%d batches", batches_sent);
	is_int(backwards, 0, "no key goes back");
	ok(stored[0] == 20000 && stored[1] == 19997 && stored[2] == 19998 && stored[3] == 19999,
	   "the last ones stand");
	commit_queue_free(q);
}

/* Memory is used again: by requests of many rows and of few, with long metadata and without. */
static void
used_again(void)
{
	static char metadata[3000];
	CommitQueue *q = commit_queue_new(1000, on_answer, NULL);
	int wrong = 0;

	memset(metadata, 'x', sizeof(metadata));
	for (int round = 0; round < 50; round++)
	{
		const CommitBatch *b;
		int at = 0;

		for (int i = 0; i < 20; i++)
		{
			CommitRow rows[8];
			int n = 1 + (round + i) % 8;

			for (int k = 0; k < n; k++)
				rows[k] = (CommitRow){{{1}},
									  k,
									  round * 1000 + i * 10 + k,
									  -1,
									  {metadata, (round * 7 + i * 131 + k) % (int) sizeof(metadata)}};
			/* One group each, so that rows stay in order. */
			commit_queue_add(q, 1, &(CommitRequest){1, {(char[]){(char) ('a' + i)}, 1}, 1, 1, 1, rows, n});
		}
		b = commit_queue_next(q);
		for (int i = 0; i < 20; i++)
		{
			for (int k = 0; k < 1 + (round + i) % 8; k++, at++)
				wrong +=
					at >= b->row_count || b->rows[at].group_id.s[0] != 'a' + i ||
					b->rows[at].row->offset != round * 1000 + i * 10 + k ||
					b->rows[at].row->metadata.len != (round * 7 + i * 131 + k) % (int) sizeof(metadata) ||
					(b->rows[at].row->metadata.len > 0 && b->rows[at].row->metadata.s[0] != 'x');
		}
		commit_queue_done(q, COMMIT_DONE, NULL, 0);
		(void) answered();
	}
	is_int(wrong, 0, "what was used before holds what is in it now");
	/* More at once than are kept. */
	for (int i = 0; i < 2000; i++)
		add(q, i, "a", 1, i, i);
	is_int(commit_queue_next(q)->row_count, 1000, "many small ones");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	is_int(commit_queue_next(q)->row_count, 1000, "and the rest of them");
	commit_queue_done(q, COMMIT_DONE, NULL, 0);
	(void) answered();
	commit_queue_free(q);
}

int
main(void)
{
	batches();
	unknown_outcome();
	by_halves();
	giving_up();
	order_is_kept();
	used_again();
	return tap_done();
}
