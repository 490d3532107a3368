/*
 * probe.h: what answers at the other end of a session, and whether brokerd can work with it.
 *
 * The questions are asked by whoever has a connection (session.c on the loop, meta_check() blocking); the
 * judgement is a pure function.
 */
#ifndef BROKERD_META_PROBE_H
#define BROKERD_META_PROBE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "brokerd/base/err.h"
#include "brokerd/meta/text.h"

typedef struct MetaProbe
{
	int libpq_pid;   /* that the connection was told at its start */
	int backend_pid; /* that answered the first question */
	int later_pid;   /* that answered the last one */
	bool is_standby;
	int server_version; /* 150020 */
	char database[128];
	char role[128];
	char extension[32]; /* version of pg_broker; "" = not installed */
	bool has_schema;
	bool may_use_schema;
	int contract_oldest, contract_newest; /* 0: not asked */
	bool quiet;                           /* warnings of session_check_1 are another session's to say */
	bool prepared_lost;                   /* a statement that was prepared in this session was not there */
	char critical[512];                   /* first critical finding of session_check_1; "" = none */
} MetaProbe;

/* The questions, in order; a question that makes no sense after the answers so far is skipped. */
typedef enum MetaProbeStep
{
	META_PROBE_IDENTITY,
	META_PROBE_CONTRACT,
	META_PROBE_CHECK,
	META_PROBE_STEPS
} MetaProbeStep;
const char *probe_sql(MetaProbeStep step);
/* Takes the rows of a step; warnings of session_check_1 are logged.  False and a sentence when it failed. */
bool probe_take(MetaProbe *probe, MetaProbeStep step, const PGresult *rows, Err *err)
	__attribute__((warn_unused_result));
/* Is brokerd able to work with this session, as far as it was asked?  False and one sentence with what to do. */
bool probe_judge(const MetaProbe *probe, Err *err) __attribute__((warn_unused_result));
/* Two sessions that are open at the same time. */
bool probe_judge_pair(const MetaProbe *a, const MetaProbe *b, Err *err) __attribute__((warn_unused_result));
bool probe_pooler_sentence(Err *err); /* returns false */
/* Between brokerd and PostgreSQL stands something that hands out sessions: not bad in itself. */
bool probe_is_pooled(const MetaProbe *probe);

/* Settings of a session (hazards A27), one text for a simple query. */
void probe_settings_sql(MetaText *out, int64_t statement_timeout_ms, bool listen);

#endif
