/*
 * result.h: what a call's callback gets, inside.
 */
#ifndef BROKERD_META_RESULT_H
#define BROKERD_META_RESULT_H

#include <libpq-fe.h>

#include "brokerd/meta/meta.h"

struct MetaResult
{
	MetaStatus status;
	const PGresult *rows; /* NULL without an answer */
	const char *message;  /* without an answer: why */
	const char *sqlstate; /* of an error made here; else from `rows` */
};

/* PB077 → 77; 0 when it is no code of Kafka's. */
int16_t meta_sqlstate_kafka_code(const char *sqlstate);
/* The session is over, or of no use: shutdown, crash, connection trouble, a server that became read-only. */
bool meta_sqlstate_is_lost(const char *sqlstate);

#endif
