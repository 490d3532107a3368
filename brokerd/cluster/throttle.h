/*
 * throttle.h: how many bytes may go now, so that not more than `rate` a second go on average.  Pure: the caller brings
 * the clock (boot, ms).
 *
 * A balance grows by the rate and shrinks by what went.  It holds no more than `windows` windows' worth
 * (replication.quota.window.num of replication.quota.window.size.seconds) and begins with one.  It may go below
 * zero, since a batch is sent whole: the debt is waited for.
 *
 *     balance   ┌ one window                 nothing may go until there is a grain again (100 ms worth of the rate, at
 *            ───┘\      /\    /\    /\       most 1 MiB), so that a low rate does not become many tiny requests
 *       0 ────────\────/──\──/──\──/──
 *                  \  /    \/    \/
 */
#ifndef BROKERD_CLUSTER_THROTTLE_H
#define BROKERD_CLUSTER_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_NONE INT64_MAX /* the rate that limits nothing, Kafka's default */
/* Who has to wait looks again after that: the rate may change meanwhile. */
#define THROTTLE_HOLD_MAX_MS 1000

typedef struct Throttle
{
	int64_t rate; /* bytes a second */
	int64_t window_ms;
	int64_t windows;
	double balance; /* bytes, at `at_ms` */
	int64_t at_ms;
} Throttle;

void throttle_init(Throttle *t, int64_t window_ms, int64_t windows);
/* Another rate begins with one window's worth of it; a debt stays. */
void throttle_set_rate(Throttle *t, int64_t rate, int64_t now_ms);
/* 0: nothing before throttle_wait_ms.  THROTTLE_NONE without a limit. */
int64_t throttle_allowance(Throttle *t, int64_t now_ms);
/* Until something may go; 0 now, INT64_MAX never, with a rate of 0. */
int64_t throttle_wait_ms(Throttle *t, int64_t now_ms);
/* So many bytes went. */
void throttle_note(Throttle *t, int64_t bytes, int64_t now_ms);

/*
 * One entry of "0:1,12:3", partition and broker; moves `list` behind it.  False at the end.  What is no pair is
 * passed over: values are checked where they are set.
 */
bool throttle_next_replica(const char **list, int32_t *partition, int32_t *broker);
/* "*": every replica. */
bool throttle_is_of_all(const char *list);

#endif
