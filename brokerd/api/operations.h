/*
 * operations.h: what people asked for in SQL and a leader carries out (broker.delete_records, broker.purge_topic).
 * PostgreSQL gives the same operation again until it is finished; one that is under way is not begun twice.
 */
#ifndef BROKERD_API_OPERATIONS_H
#define BROKERD_API_OPERATIONS_H

#include "brokerd/api/broker.h"

/* MetaCallbacks.on_operations. */
void operations_take(Broker *broker, const MetaOperation *operations, int n);
void operations_free(Broker *broker);

#endif
