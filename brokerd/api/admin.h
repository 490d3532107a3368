/*
 * admin.h: requests that PostgreSQL carries out.
 *
 *     handler ─▶ meta_*() ─▶ the rows say what happened ─▶ admin_settle(): wait until this broker's own image
 *     shows it (at most ADMIN_SETTLE_MS) ─▶ answer
 *
 * so that a client that made a topic can produce to it at once.  The answer itself does not depend on the wait.
 */
#ifndef BROKERD_API_ADMIN_H
#define BROKERD_API_ADMIN_H

#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"

enum
{
	ADMIN_SETTLE_MS = 1000
};

typedef struct AdminOp
{
	struct AdminOp *prev, *next;
	ApiCall *call;
	void *response;
	bool (*settled)(struct AdminOp *op); /* does the image show it? */
	void (*finish)(struct AdminOp *op);  /* answers */
	void *ctx;
	ev_timer timer;
} AdminOp;

/* Calls op->finish at once, or when op->settled() holds, or after ADMIN_SETTLE_MS. */
void admin_settle(AdminOp *op);
/* From on_image_changed: look at those that wait. */
void admin_image_changed(Broker *broker);

/* A call failed as a whole: the code and sentence that every part of its answer gets. */
int16_t admin_failure(ApiCall *call, const MetaResult *result, WStr *message);
/* Column `c` of row `r` as a string in the arena; SQL null is Kafka's null. */
WStr admin_text(ApiCall *call, const MetaResult *result, int r, int c);
/* {"name":"t","partitions":[0,1]}, as the calls that name partitions take it. */
void admin_write_partitions(MetaText *json, WStr topic, const int32_t *partitions, int32_t n);
/* Rows from `r` on that have the same text in column 0: the partitions of a topic. */
int admin_rows_alike(const MetaResult *result, int r);

#endif
