/* How many bytes may go now, with a clock that is moved by hand. */
#include "brokerd/cluster/throttle.h"
#include "regress/unit/tap.h"

enum
{
	MB = 1000000
};

static void
test_limit(void)
{
	Throttle t;

	throttle_init(&t, 1000, 11);
	ok(throttle_allowance(&t, 5000) == THROTTLE_NONE && throttle_wait_ms(&t, 5000) == 0,
	   "without a rate nothing is limited");
	throttle_note(&t, 100 * MB, 5000);
	throttle_set_rate(&t, MB, 6000);
	is_int(throttle_allowance(&t, 6000), MB,
		   "a rate begins with one window, whatever went before there was one");
	throttle_note(&t, MB, 6000);
	is_int(throttle_allowance(&t, 6000), 0, "which is used up");
	is_int(throttle_wait_ms(&t, 6000), 100, "there is a grain after 100 ms");
	is_int(throttle_allowance(&t, 6099), 0, "nothing before it");
	is_int(throttle_allowance(&t, 6100), MB / 10, "and then it may go");
	throttle_note(&t, 600000, 6100);
	is_int(throttle_wait_ms(&t, 6100), 600, "a batch that was larger is waited for, too");
	is_int(throttle_allowance(&t, 6699), 0, "all of it");
	is_int(throttle_allowance(&t, 6700), MB / 10, "to the millisecond");
	is_int(throttle_allowance(&t, 6600), MB / 10, "a clock that stands back takes nothing");
	is_int(throttle_allowance(&t, 1000000), 11 * MB, "what is not used is kept for eleven windows");
}

static void
test_rates(void)
{
	Throttle t;

	throttle_init(&t, 2000, 3);
	throttle_set_rate(&t, 0, 0);
	is_int(throttle_allowance(&t, 100000), 0, "a rate of 0: nothing goes");
	ok(throttle_wait_ms(&t, 100000) == INT64_MAX, "and nothing ever will");
	throttle_set_rate(&t, MB, 100000);
	is_int(throttle_allowance(&t, 100000), 2 * MB, "another rate begins with a window of its own size");
	throttle_note(&t, 12 * MB, 100000);
	throttle_set_rate(&t, 10 * MB, 100000);
	is_int(throttle_allowance(&t, 100000), 0, "a debt outlives a change of the rate");
	is_int(throttle_wait_ms(&t, 100000), 1100, "and is paid at the new one");
	throttle_set_rate(&t, 10 * MB, 100500);
	is_int(throttle_wait_ms(&t, 100500), 600, "the same rate again changes nothing");
	throttle_set_rate(&t, THROTTLE_NONE, 100600);
	ok(throttle_allowance(&t, 100600) == THROTTLE_NONE, "the limit is taken away: all may go at once");
	throttle_set_rate(&t, MB, 100700);
	is_int(throttle_allowance(&t, 100700), 2 * MB, "and a new one knows nothing of what went before");

	throttle_set_rate(&t, 3, 200000);
	throttle_note(&t, 6, 200000);
	is_int(throttle_wait_ms(&t, 200000), 334, "three bytes a second: one after a third of one");
	throttle_set_rate(&t, THROTTLE_NONE - 1, 300000);
	ok(throttle_allowance(&t, 300000) > 0 && throttle_wait_ms(&t, 300000) == 0, "the largest rate is one");
	throttle_init(&t, (int64_t) INT32_MAX * 1000, INT32_MAX);
	throttle_set_rate(&t, THROTTLE_NONE - 1, 1);
	ok(throttle_allowance(&t, INT64_MAX) == THROTTLE_NONE, "with the largest windows, too");
}

/* Whoever takes what may go, when it may go: the average is the rate, whatever the size of a batch. */
static void
test_average(void)
{
	static const int64_t batches[] = {1, 16384, MB, 20 * MB};

	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
	{
		Throttle t;
		int64_t now = 0, sent = 0, asked = 0;

		throttle_init(&t, 1000, 11);
		throttle_set_rate(&t, 5 * MB, now);
		while (now < 100000)
		{
			int64_t may = throttle_allowance(&t, now);

			if (may == 0)
			{
				now += throttle_wait_ms(&t, now);
				continue;
			}
			asked++;
			may = may > batches[i] ? may - may % batches[i] : batches[i];
			throttle_note(&t, may, now);
			sent += may;
		}
		ok(sent >= 500 * MB && sent <= 505 * MB + 20 * MB && asked <= 1050,
		   "batches of %lld bytes: %lld MB in 100 s at 5 MB/s, in %lld parts", (long long) batches[i],
		   (long long) (sent / MB), (long long) asked);
	}
}

static void
test_list(void)
{
	const char *list = "0:1,12:3,,7,x:1,4:y,-1:2,99999999999:1,5:2x,3:2147483647";
	const char *end = "";
	int32_t partition, broker;

	ok(throttle_next_replica(&list, &partition, &broker) && partition == 0 && broker == 1, "0:1");
	ok(throttle_next_replica(&list, &partition, &broker) && partition == 12 && broker == 3, "12:3");
	ok(throttle_next_replica(&list, &partition, &broker) && partition == 3 && broker == INT32_MAX,
	   "what is no pair is passed over");
	ok(!throttle_next_replica(&list, &partition, &broker), "and that was all");
	ok(!throttle_next_replica(&end, &partition, &broker), "an empty list");
	ok(throttle_is_of_all("*") && !throttle_is_of_all("") && !throttle_is_of_all("0:1"),
	   "* is every replica");
}

int
main(void)
{
	test_limit();
	test_rates();
	test_average();
	test_list();
	return tap_done();
}
