/*
 * newer.h: is the PostgreSQL that this broker has one that the others have left behind (hazards A1)?  Pure.
 *
 * After a failover an old primary may go on taking writes, and whoever is still connected to it would decide by rows that
 * count no more.  Brokers tell each other the incarnation of PostgreSQL that they have; a later one counts while
 * somebody is in touch with it.  One's own heartbeat brings it as well when it is the same PostgreSQL, so only what
 * stays later for a while is another one.
 */
#ifndef BROKERD_META_NEWER_H
#define BROKERD_META_NEWER_H

#include <stdbool.h>
#include <stdint.h>

/* Boot clock, milliseconds. */
typedef struct NewerPostgres
{
	int64_t incarnation; /* the latest that a peer in touch with it has told of; -1 none */
	int64_t since_ms;    /* first told of */
	int64_t last_ms;     /* last told of */
} NewerPostgres;

/* A peer has it, and its last heartbeat there was `age_ms` ago. */
void newer_heard(NewerPostgres *n, int64_t incarnation, int64_t age_ms, int64_t timeout_ms, int64_t now_ms);
/* One of `incarnation` answers: somebody has a later one now. */
bool newer_exists(const NewerPostgres *n, int64_t incarnation, int64_t timeout_ms, int64_t now_ms);
/* And our heartbeats, one each `interval_ms`, have not brought it: leave. */
bool newer_is_elsewhere(const NewerPostgres *n, int64_t incarnation, int64_t interval_ms, int64_t timeout_ms,
						int64_t now_ms);

#endif
