#include "brokerd/cluster/throttle.h"

#include <math.h>
#include <string.h>

#define GRAIN_MS    100.0
#define LARGE_GRAIN 1048576.0

void
throttle_init(Throttle *t, int64_t window_ms, int64_t windows)
{
	*t = (Throttle){.rate = THROTTLE_NONE, .window_ms = window_ms, .windows = windows};
}

static double
bytes_in(const Throttle *t, double ms)
{
	return (double) t->rate * ms / 1e3;
}

static double
grain(const Throttle *t)
{
	double bytes = bytes_in(t, GRAIN_MS);

	return bytes > LARGE_GRAIN ? LARGE_GRAIN : bytes < 1 ? 1 : bytes;
}

static void
settle(Throttle *t, int64_t now_ms)
{
	double most = bytes_in(t, (double) t->window_ms * (double) t->windows);

	if (now_ms > t->at_ms)
	{
		t->balance += bytes_in(t, (double) (now_ms - t->at_ms));
		t->at_ms = now_ms;
	}
	if (t->balance > most)
		t->balance = most;
}

void
throttle_set_rate(Throttle *t, int64_t rate, int64_t now_ms)
{
	if (rate == t->rate)
		return;
	if (t->rate == THROTTLE_NONE)
		t->balance = 0; /* nothing was counted */
	else
		settle(t, now_ms);
	t->rate = rate;
	t->at_ms = now_ms;
	if (t->balance >= 0)
		t->balance = bytes_in(t, (double) t->window_ms);
}

int64_t
throttle_allowance(Throttle *t, int64_t now_ms)
{
	if (t->rate == THROTTLE_NONE)
		return THROTTLE_NONE;
	settle(t, now_ms);
	if (t->balance < grain(t))
		return 0;
	return t->balance >= (double) (THROTTLE_NONE / 2) ? THROTTLE_NONE : (int64_t) t->balance;
}

int64_t
throttle_wait_ms(Throttle *t, int64_t now_ms)
{
	double ms;

	if (throttle_allowance(t, now_ms) > 0)
		return 0;
	if (t->rate <= 0)
		return INT64_MAX;
	ms = ceil((grain(t) - t->balance) * 1e3 / (double) t->rate);
	return ms >= 9e15 ? INT64_MAX : ms < 1 ? 1 : (int64_t) ms;
}

void
throttle_note(Throttle *t, int64_t bytes, int64_t now_ms)
{
	if (t->rate == THROTTLE_NONE)
		return;
	settle(t, now_ms);
	t->balance -= (double) bytes;
}

bool
throttle_is_of_all(const char *list)
{
	return strcmp(list, "*") == 0;
}

/* Digits only, so neither a sign nor blanks; false also when it does not fit. */
static bool
take_number(const char **p, int32_t *out)
{
	int64_t n = 0;
	const char *from = *p;

	for (; **p >= '0' && **p <= '9'; (*p)++)
		if (n <= INT32_MAX)
			n = n * 10 + (**p - '0');
	*out = (int32_t) n;
	return *p > from && n <= INT32_MAX;
}

bool
throttle_next_replica(const char **list, int32_t *partition, int32_t *broker)
{
	while (**list != '\0')
	{
		const char *p = *list;
		bool is_pair =
			take_number(&p, partition) && *p++ == ':' && take_number(&p, broker) && (*p == ',' || *p == '\0');

		*list += strcspn(*list, ",");
		*list += **list == ',';
		if (is_pair)
			return true;
	}
	return false;
}
