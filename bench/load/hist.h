/*
 * hist.h: a histogram of times with a bounded relative error, as HDR histograms are.
 *
 * Debian has no C library of HDR histograms (golang and Java only), hence these few lines.  Values are
 * nanoseconds.  Each power of two is cut into HIST_HALF equal steps, so what is read back is at most 1/128
 * (0.8 %) above what was recorded, and never below; values under 256 ns are exact:
 *
 *     value        0 … 255   256 … 511   512 … 1023   …   up to 2^44 ns (almost five hours)
 *     step               1           2            4
 *     buckets          256         128          128
 *
 * One thread records into a histogram; hist_add brings those of several threads together afterwards.
 */
#ifndef BENCH_LOAD_HIST_H
#define BENCH_LOAD_HIST_H

#include <stdint.h>

#define HIST_HALF     128
#define HIST_MAX_BITS 44
#define HIST_BUCKETS  (2 * HIST_HALF + (HIST_MAX_BITS - 8) * HIST_HALF)

typedef struct Hist
{
	int64_t count;
	int64_t max; /* exact */
	double sum;
	int64_t bucket[HIST_BUCKETS];
} Hist;

/* Negative values count as 0, those of 2^44 and more as the largest that there is. */
void hist_record(Hist *h, int64_t ns);
void hist_add(Hist *into, const Hist *from);

/* The smallest value that at least `share` (0 … 1) of what was recorded does not exceed; 0 when empty. */
int64_t hist_quantile(const Hist *h, double share);
double hist_mean(const Hist *h);

/* The bucket of a value, and the largest value of a bucket. */
int hist_bucket(int64_t ns);
int64_t hist_bucket_top(int bucket);

#endif
