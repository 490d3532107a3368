/* The histogram of the load tools: its error is bounded, and what is exact is exact. */
#include "bench/load/hist.h"

#include <stdlib.h>

#include "regress/unit/tap.h"

static void
test_buckets(void)
{
	bool within = true, never_below = true, rising = true;
	int last = -1;

	for (int64_t v = 0; v < (int64_t) 1 << HIST_MAX_BITS; v += 1 + v / 97)
	{
		int64_t top = hist_bucket_top(hist_bucket(v));

		never_below = never_below && top >= v;
		within = within && top - v <= v / HIST_HALF;
		rising = rising && hist_bucket(v) >= last;
		last = hist_bucket(v);
	}
	ok(never_below, "what is read back is never below what was recorded");
	ok(within, "and at most a 128th above it");
	ok(rising, "buckets rise with the values");
	is_int(hist_bucket_top(hist_bucket(255)), 255, "255 is exact");
	is_int(hist_bucket_top(hist_bucket(256)), 257, "256 shares its bucket with 257");
	is_int(hist_bucket(-1), 0, "what is negative counts as 0");
	is_int(hist_bucket(INT64_MAX), HIST_BUCKETS - 1, "the largest value has a bucket, the last");
	is_int(hist_bucket(((int64_t) 1 << HIST_MAX_BITS) - 1), HIST_BUCKETS - 1,
		   "which the largest known value shares");
	for (int b = 1; b < HIST_BUCKETS; b++)
		if (hist_bucket(hist_bucket_top(b)) != b || hist_bucket(hist_bucket_top(b - 1) + 1) != b)
		{
			ok(false, "bucket %d begins where the one before ends", b);
			return;
		}
	ok(true, "every bucket begins where the one before ends");
}

static void
test_quantiles(Hist *h)
{
	is_int(hist_quantile(h, .99), 0, "nothing recorded: 0");
	for (int64_t v = 1; v <= 100; v++)
		hist_record(h, v);
	is_int(hist_quantile(h, .5), 50, "the median of 1 to 100");
	is_int(hist_quantile(h, .99), 99, "p99 of 1 to 100");
	is_int(hist_quantile(h, 1), 100, "the largest of 1 to 100");
	ok(hist_mean(h) == 50.5, "the mean of 1 to 100");
	hist_record(h, 1000001);
	is_int(h->max, 1000001, "the maximum is exact");
	is_int(hist_quantile(h, 1), 1000001, "and no percentile is above it");
}

static void
test_sum(Hist *into, Hist *from)
{
	int64_t before = into->count;

	hist_record(from, 7);
	hist_record(from, 2000002);
	hist_add(into, from);
	is_int(into->count, before + 2, "a sum has the values of both");
	is_int(into->max, 2000002, "and the larger maximum");
	is_int(from->count, 2, "what was added is as it was");
}

int
main(void)
{
	Hist *a = calloc(1, sizeof(*a));
	Hist *b = calloc(1, sizeof(*b));

	if (a == NULL || b == NULL)
		return 1;
	test_buckets();
	test_quantiles(a);
	test_sum(a, b);
	free(a);
	free(b);
	return tap_done();
}
