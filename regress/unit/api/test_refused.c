/* What stands behind a batch that was refused for a moment: in time, in sequence, and of whom. */
#include <string.h>

#include "brokerd/api/refused.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"

static const SentBatch first = {7, 2, 4000, 1, 10};

static SentBatch
batch(int16_t epoch, int32_t sequence)
{
	SentBatch b = first;

	b.epoch = epoch;
	b.sequence = sequence;
	return b;
}

static int16_t
ask(Refused *r, SentBatch b, int64_t now)
{
	return refused_behind(r, &b, now);
}

static void
test_order(void)
{
	Refused r = {0};
	SentBatch b = batch(1, 11);

	is_int(ask(&r, b, 0), KERR_NONE, "nothing was refused");
	refused_note(&r, &first, KERR_NOT_ENOUGH_REPLICAS, 100);
	is_int(ask(&r, b, 100), KERR_NOT_ENOUGH_REPLICAS, "the next one hears the same");
	refused_note(&r, &b, KERR_NOT_LEADER_OR_FOLLOWER, 200);
	is_int(ask(&r, batch(1, 500), 300), KERR_NOT_ENOUGH_REPLICAS, "as all behind it, of the first one");
	is_int(ask(&r, batch(1, 9), 300), KERR_NONE, "an earlier one passes");
	is_int(ask(&r, b, 300), KERR_NOT_ENOUGH_REPLICAS, "and changes nothing");
	is_int(ask(&r, first, 300), KERR_NONE, "itself passes");
	is_int(ask(&r, b, 300), KERR_NONE, "then those behind it");
	refused_free(&r);
}

static void
test_end(void)
{
	Refused r = {0};

	refused_note(&r, &first, KERR_NOT_ENOUGH_REPLICAS, 100);
	is_int(ask(&r, batch(1, 11), 99 + REFUSED_MS), KERR_NOT_ENOUGH_REPLICAS, "until it is over");
	is_int(ask(&r, batch(1, 11), 100 + REFUSED_MS), KERR_NONE, "which is after a second");
	ok(r.by_key == NULL, "and nothing is kept");
	refused_note(&r, &first, KERR_NOT_ENOUGH_REPLICAS, 5000);
	is_int(ask(&r, batch(2, 11), 5000), KERR_NONE, "a new epoch passes");
	is_int(ask(&r, batch(1, 11), 5000), KERR_NONE, "and ends it");
	refused_note(&r, &first, KERR_NOT_ENOUGH_REPLICAS, 5000);
	{
		SentBatch next = batch(2, 0);

		refused_note(&r, &next, KERR_NOT_LEADER_OR_FOLLOWER, 5000);
	}
	is_int(ask(&r, batch(2, 1), 5000), KERR_NOT_LEADER_OR_FOLLOWER, "one of a new epoch takes its place");
	refused_free(&r);
}

static void
test_round(void)
{
	Refused r = {0};
	SentBatch last = batch(1, INT32_MAX - 1);

	refused_note(&r, &last, KERR_NOT_ENOUGH_REPLICAS, 0);
	is_int(ask(&r, batch(1, INT32_MAX), 0), KERR_NOT_ENOUGH_REPLICAS, "INT32_MAX is behind INT32_MAX - 1");
	is_int(ask(&r, batch(1, 3), 0), KERR_NOT_ENOUGH_REPLICAS, "3 too, once round");
	is_int(ask(&r, batch(1, INT32_MAX - 5), 0), KERR_NONE, "what is smaller by a little is not");
	refused_free(&r);
}

static void
test_others(void)
{
	Refused r = {0};
	SentBatch other = batch(1, 11);
	WUuid id = {{1}};

	refused_note(&r, &first, KERR_NOT_ENOUGH_REPLICAS, 0);
	other.topic++;
	is_int(ask(&r, other, 0), KERR_NONE, "another topic");
	other = batch(1, 11);
	other.partition++;
	is_int(ask(&r, other, 0), KERR_NONE, "another partition");
	other = batch(1, 11);
	other.producer_id++;
	is_int(ask(&r, other, 0), KERR_NONE, "another producer");
	refused_free(&r);
	other = batch(1, 10);
	other.producer_id = -1;
	refused_note(&r, &other, KERR_NOT_ENOUGH_REPLICAS, 0);
	refused_note(&r, &first, KERR_CORRUPT_MESSAGE, 0);
	refused_note(&r, &first, KERR_REQUEST_TIMED_OUT, 0);
	ok(r.by_key == NULL, "nothing is kept of who has no id, and of what does not pass by itself");
	ok(refused_topic(WSTR_LIT("a"), &id) != refused_topic(WSTR_LIT("b"), &id) &&
		   refused_topic(WSTR_LIT(""), &id) == refused_topic(WSTR_NULL, &id),
	   "a topic by its name, or by its id");
	for (int i = 0; i < 20000; i++)
	{
		other = first;
		other.producer_id = i;
		refused_note(&r, &other, KERR_NOT_ENOUGH_REPLICAS, 0);
	}
	other.sequence++;
	is_int(ask(&r, other, 0), KERR_NOT_ENOUGH_REPLICAS, "of very many the newest are kept");
	other.producer_id = 0;
	is_int(ask(&r, other, 0), KERR_NONE, "and the oldest forgotten");
	refused_free(&r);
}

int
main(void)
{
	test_order();
	test_end();
	test_round();
	test_others();
	return tap_done();
}
