/* hist.c: see hist.h. */
#include "bench/load/hist.h"

int
hist_bucket(int64_t ns)
{
	int shift;

	if (ns < 2 * HIST_HALF)
		return ns < 0 ? 0 : (int) ns;
	if (ns >= (int64_t) 1 << HIST_MAX_BITS)
		return HIST_BUCKETS - 1;
	/* The value's top eight bits, of which the first is always set, say the step within its power of two. */
	shift = 63 - __builtin_clzll((unsigned long long) ns) - 7;
	return HIST_HALF * (shift + 1) + (int) (ns >> shift) - HIST_HALF;
}

int64_t
hist_bucket_top(int bucket)
{
	int shift;

	if (bucket < 2 * HIST_HALF)
		return bucket;
	shift = bucket / HIST_HALF - 1;
	return (((int64_t) (bucket % HIST_HALF) + HIST_HALF + 1) << shift) - 1;
}

void
hist_record(Hist *h, int64_t ns)
{
	if (ns < 0)
		ns = 0;
	h->bucket[hist_bucket(ns)]++;
	h->count++;
	h->sum += (double) ns;
	if (ns > h->max)
		h->max = ns;
}

void
hist_add(Hist *into, const Hist *from)
{
	for (int i = 0; i < HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
	into->count += from->count;
	into->sum += from->sum;
	if (from->max > into->max)
		into->max = from->max;
}

int64_t
hist_quantile(const Hist *h, double share)
{
	double wanted = share * (double) h->count;
	int64_t seen = 0;

	if (h->count == 0)
		return 0;
	for (int i = 0; i < HIST_BUCKETS; i++)
	{
		seen += h->bucket[i];
		if (h->bucket[i] > 0 && (double) seen >= wanted)
		{
			int64_t top = hist_bucket_top(i);

			/* No percentile is above the maximum, which is known exactly. */
			return top < h->max ? top : h->max;
		}
	}
	return h->max;
}

double
hist_mean(const Hist *h)
{
	return h->count == 0 ? 0 : h->sum / (double) h->count;
}
