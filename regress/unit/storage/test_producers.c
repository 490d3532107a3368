/* Idempotence and transactions: the decision as a table, then through a log, restarts and truncation. */
#include "brokerd/storage/producer_snapshot.h"
#include "brokerd/storage/producer_state.h"
#include "regress/unit/storage/harness.h"

#define MAX INT32_MAX

static void
test_table(void)
{
	static const struct
	{
		const char *what;
		bool known;
		int16_t epoch; /* of the entry */
		int32_t last;  /* last sequence of its last batch (of 10 records); -1 no batch */
		int64_t txn_start;
		int16_t b_epoch;
		int32_t b_sequence;
		int32_t b_delta;
		bool txn, verified, marker;
		int32_t coordinator_epoch; /* of the marker; the entry has 5 */
		int16_t error;
		bool dup;
	} rows[] = {
		{"unknown producer, any sequence", false, 0, -1, -1, 3, 77, 0, false, false, false, 0, 0, false},
		{"the next sequence", true, 0, 9, -1, 0, 10, 4, false, false, false, 0, 0, false},
		{"a gap", true, 0, 9, -1, 0, 11, 0, false, false, false, 0, KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"the last batch again", true, 0, 9, -1, 0, 0, 9, false, false, false, 0, 0, true},
		{"its beginning only", true, 0, 9, -1, 0, 0, 8, false, false, false, 0,
		 KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"something older", true, 0, 99, -1, 0, 50, 9, false, false, false, 0,
		 KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"the sequence wraps", true, 0, MAX, -1, 0, 0, 4, false, false, false, 0, 0, false},
		{"no wrap before the end", true, 0, MAX - 1, -1, 0, 0, 4, false, false, false, 0,
		 KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"a batch across the wrap again", true, 0, 4, -1, 0, MAX - 4, 9, false, false, false, 0, 0, true},
		{"behind a batch across the wrap", true, 0, 4, -1, 0, 5, 0, false, false, false, 0, 0, false},
		{"a new epoch starts at 0", true, 0, 9, -1, 1, 0, 0, false, false, false, 0, 0, false},
		{"a new epoch elsewhere", true, 0, 9, -1, 1, 10, 0, false, false, false, 0,
		 KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"the same sequences in a new epoch", true, 0, 9, -1, 1, 0, 9, false, false, false, 0, 0, false},
		{"an old epoch", true, 2, 9, -1, 1, 10, 0, false, false, false, 0, KERR_INVALID_PRODUCER_EPOCH,
		 false},
		{"after a marker only, 0", true, 2, -1, -1, 2, 0, 0, false, false, false, 0, 0, false},
		{"after a marker only, not 0", true, 2, -1, -1, 2, 5, 0, false, false, false, 0,
		 KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, false},
		{"first of a transaction, verified", true, 0, 9, -1, 0, 10, 0, true, true, false, 0, 0, false},
		{"first of a transaction, not verified", true, 0, 9, -1, 0, 10, 0, true, false, false, 0,
		 KERR_INVALID_TXN_STATE, false},
		{"later in a transaction", true, 0, 9, 3, 0, 10, 0, true, false, false, 0, 0, false},
		{"not transactional in a transaction", true, 0, 9, 3, 0, 10, 0, false, false, false, 0,
		 KERR_INVALID_TXN_STATE, false},
		{"unknown producer, not verified", false, 0, -1, -1, 0, 0, 0, true, false, false, 0,
		 KERR_INVALID_TXN_STATE, false},
		{"a marker", true, 0, 9, 3, 0, -1, 0, true, false, true, 5, 0, false},
		{"a marker of a newer coordinator", true, 0, 9, 3, 0, -1, 0, true, false, true, 6, 0, false},
		{"a marker of an older coordinator", true, 0, 9, 3, 0, -1, 0, true, false, true, 4,
		 KERR_TRANSACTION_COORDINATOR_FENCED, false},
		{"a marker of an old epoch", true, 2, 9, 3, 1, -1, 0, true, false, true, 5,
		 KERR_INVALID_PRODUCER_EPOCH, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		ProducerEntry e = {.producer_id = 1,
						   .epoch = rows[i].epoch,
						   .coordinator_epoch = 5,
						   .txn_start = rows[i].txn_start,
						   .nbatches = rows[i].last < 0 ? 0 : 1,
						   .batches = {{.last_sequence = rows[i].last, .delta = 9, .last_offset = 100}}};
		ProducerAppend a = {.origin = rows[i].marker ? PRODUCER_COORDINATOR : PRODUCER_CLIENT,
							.producer_id = 1,
							.epoch = rows[i].b_epoch,
							.base_sequence = rows[i].b_sequence,
							.delta = rows[i].b_delta,
							.transactional = rows[i].txn,
							.verified = rows[i].verified,
							.marker = rows[i].marker,
							.coordinator_epoch = rows[i].coordinator_epoch};
		ProducerVerdict v = producer_check(rows[i].known ? &e : NULL, &a);

		ok(v.error == rows[i].error && (v.dup != NULL) == rows[i].dup, "%s: %s", rows[i].what,
		   v.dup != NULL ? "duplicate" : kerr_name(v.error));
	}
}

static BatchSpec
batch(int64_t id, int16_t epoch, int32_t sequence, int records)
{
	return (BatchSpec){.producer_id = id, .epoch = epoch, .sequence = sequence, .records = records};
}

static void
test_last_five(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	BatchSpec s;

	harness_init(&h, "five");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 7; i++)
	{
		s = batch(1, 0, i * 2, 2);
		harness_append(&h, log, &s, &a);
	}
	for (int i = 0; i < 7; i++)
	{
		int16_t error;

		s = batch(1, 0, i * 2, 2);
		error = harness_append(&h, log, &s, &a);
		if (i < 2)
			is_int(error, KERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "batch %d is too old to be known", i);
		else
			ok(error == 0 && a.duplicate && a.base_offset == i * 2 && a.end_offset == i * 2 + 2,
			   "batch %d is a duplicate with its own offsets", i);
	}
	/* A6(a): while the original is not synced the duplicate is not either: same end offset to wait for. */
	s = batch(1, 0, 14, 3);
	harness_append(&h, log, &s, &a);
	s = batch(1, 0, 14, 3);
	ok(harness_append(&h, log, &s, &a) == 0 && a.duplicate && a.end_offset == 17,
	   "a duplicate waits for its original");
	ok(log_synced_end(log) < 17, "which is not on disk yet");
	harness_wait(&h, log_synced_end(log) == 17);
	is_int(log_appended_end(log), 17, "nothing was appended twice");
	harness_close(&h);

	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 4; i < 7; i++)
	{
		s = batch(1, 0, i * 2, 2);
		ok(harness_append(&h, log, &s, &a) == 0 && a.duplicate, "after a clean restart batch %d is known", i);
	}
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	s = batch(1, 0, 14, 3);
	ok(harness_append(&h, log, &s, &a) == 0 && a.duplicate, "after a crash the last one is");
	s = batch(1, 0, 17, 1);
	ok(harness_append(&h, log, &s, &a) == 0 && !a.duplicate, "and the next is taken");
	harness_close(&h);
	for (int i = 18; i < 22; i++)
	{
		harness_open(&h);
		s = batch(1, 0, i, 1);
		harness_append(&h, harness_log(&h, "t", 0), &s, &a);
		harness_close(&h);
	}
	ok(access(harness_path(&h, "t-0", "00000000000000000022.snapshot"), F_OK) == 0,
	   "a stop leaves a snapshot");
	ok(access(harness_path(&h, "t-0", "00000000000000000021.snapshot"), F_OK) != 0,
	   "in place of the one before");
	harness_remove(h.dir);
}

/* Expiry goes by the broker's clock; a client may say timestamp -1 or 1970. */
static void
test_expiry(void)
{
	ProducerState *s = producer_state_new();
	ProducerAppend a = {.origin = PRODUCER_REPLICATION, .producer_id = 1, .timestamp = -1, .now_ms = 1000000};
	ProducerUndo u;
	AbortedTxn aborted;

	producer_state_apply(s, &a, &u, &aborted);
	a.producer_id = 2;
	a.timestamp = 1;
	a.transactional = true;
	producer_state_apply(s, &a, &u, &aborted);
	is_int(producer_state_expire(s, 1000500, 1000), 1001000, "nobody is due, and the next time is known");
	is_int(producer_state_count(s), 2, "both are there");
	producer_state_expire(s, 1001001, 1000);
	is_int(producer_state_count(s), 1, "then the first goes");
	ok(producer_state_find(s, 2) != NULL, "the one with an open transaction stays");
	producer_state_free(s);
}

static void
test_snapshot(void)
{
	ProducerState *s = producer_state_new(), *t = producer_state_new();
	ProducerAppend a = {.origin = PRODUCER_REPLICATION,
						.producer_id = 5,
						.epoch = 2,
						.base_sequence = 7,
						.delta = 2,
						.base_offset = 40,
						.timestamp = 99,
						.transactional = true};
	ProducerUndo u;
	AbortedTxn aborted;
	size_t len;
	uint8_t *data;
	const ProducerEntry *e;

	producer_state_apply(s, &a, &u, &aborted);
	data = producer_snapshot_encode(s, &len);
	is_int(len, 10 + 46, "a snapshot has a header and 46 bytes a producer");
	ok(producer_snapshot_decode(t, data, len, 1), "it is read back");
	e = producer_state_find(t, 5);
	ok(e != NULL && e->epoch == 2 && e->txn_start == 40 && e->nbatches == 1 &&
		   e->batches[0].last_sequence == 9 && e->batches[0].last_offset == 42 && e->batches[0].delta == 2,
	   "as it was");
	is_int(producer_state_first_open(t), 40, "with its open transaction");
	data[20] ^= 1;
	ok(!producer_snapshot_decode(t, data, len, 1), "a damaged one is refused");
	free(data);
	producer_state_free(s);
	producer_state_free(t);
}

static void
transactional(Harness *h, Log *log, int64_t id, int32_t sequence)
{
	LogAppend a;
	BatchSpec s = {.producer_id = id, .sequence = sequence, .transactional = true};

	is_int(harness_append(h, log, &s, &a), 0, "producer %d writes in a transaction", (int) id);
}

static void
check_aborted(Log *log, const char *when)
{
	LogAbortedTxn t[4];

	is_int(log_aborted_txns(log, 0, 100, t, 4), 1, "%s: one aborted transaction", when);
	ok(t[0].producer_id == 1 && t[0].first_offset == 0, "%s: the right one", when);
	is_int(log_aborted_txns(log, 0, 0, t, 4), 0, "%s: none before", when);
	is_int(log_aborted_txns(log, 5, 100, t, 4), 0, "%s: none after", when);
}

static void
test_transactions(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	LogProducer p[4];

	harness_init(&h, "txn");
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	transactional(&h, log, 1, 0); /* 0 */
	transactional(&h, log, 2, 0); /* 1 */
	transactional(&h, log, 1, 1); /* 2 */
	harness_append(&h, log, &(BatchSpec){0}, &a);
	harness_wait(&h, log_synced_end(log) == 4);
	log_set_high_watermark(log, 4);
	is_int(log_last_stable_offset(log), 0, "the last stable offset is where the first transaction begins");
	ok(harness_append_marker(&h, log, 1, 0, 7, false, &a), "producer 1 aborts"); /* 4 */
	is_int(log_last_stable_offset(log), 0, "not stable before the marker is below the high watermark");
	log_set_high_watermark(log, 5);
	is_int(log_last_stable_offset(log), 1, "then the other transaction counts");
	ok(harness_append_marker(&h, log, 2, 0, 7, true, &a), "producer 2 commits"); /* 5 */
	log_set_high_watermark(log, 6);
	is_int(log_last_stable_offset(log), 6, "and all is stable");
	ok(!harness_append_marker(&h, log, 2, 0, 6, true, &a), "an older coordinator is refused");
	check_aborted(log, "live");
	is_int(log_producers(log, p, 4), 2, "two producers");
	ok(p[0].coordinator_epoch == 7 && p[0].txn_start_offset == -1,
	   "with the coordinator's epoch and nothing open");
	transactional(&h, log, 1, 2); /* 6 */
	harness_wait(&h, log_synced_end(log) == 7);
	log_set_high_watermark(log, 7);
	harness_close(&h);

	harness_open(&h);
	log = harness_log(&h, "t", 0);
	check_aborted(log, "clean restart");
	is_int(log_last_stable_offset(log), 6, "the open transaction is known");
	harness_close(&h);
	unlink(harness_path(&h, "", ".pg_broker-manifest"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	check_aborted(log, "without a manifest");
	is_int(log_last_stable_offset(log), 6, "the open transaction is in the snapshot");
	harness_close(&h);
	unlink(harness_path(&h, "", ".kafka_cleanshutdown"));
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	check_aborted(log, "crash");
	is_int(log_last_stable_offset(log), 6, "the open transaction is found in the log");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A6(b): a truncated batch is forgotten, so that its retry is taken. */
static void
test_truncate(void)
{
	Harness h;
	Log *log;
	LogAppend a;
	BatchSpec s;
	Err err;

	harness_init(&h, "cut");
	h.config.segment_bytes = 400;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < 10; i++)
	{
		s = batch(1, 0, i, 1);
		harness_append(&h, log, &s, &a);
	}
	harness_wait(&h, log_synced_end(log) == 10);
	ok(log_truncate(log, 7, &err), "the log is truncated");
	is_int(log_appended_end(log), 7, "to its new end");
	s = batch(1, 0, 7, 1);
	ok(harness_append(&h, log, &s, &a) == 0 && !a.duplicate, "a batch that was cut is taken again");
	is_int(a.base_offset, 7, "at its place");
	s = batch(1, 0, 6, 1);
	ok(harness_append(&h, log, &s, &a) == 0 && a.duplicate, "one that was not is a duplicate");
	harness_wait(&h, log_synced_end(log) == 8);
	is_int(harness_count_batches(&h, log, 0, 1 << 20), 8, "and the log reads well");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	test_table();
	test_last_five();
	test_expiry();
	test_snapshot();
	test_transactions();
	test_truncate();
	return tap_done();
}
