/*
 * txn_index.h: a segment's .txnindex, the aborted transactions whose markers are in the segment (Kafka's
 * format: int16 version 0, int64 producer id, first offset, last offset, last stable offset).
 */
#ifndef BROKERD_STORAGE_TXN_INDEX_H
#define BROKERD_STORAGE_TXN_INDEX_H

#include "brokerd/storage/producer_state.h"

#define TXN_INDEX_ENTRY 34

void *txn_index_encode(const AbortedTxn *a, int n); /* malloc'ed */
/* Returns the number of entries in `*out` (malloc'ed), 0 when there is no file, -1 with errno (EINVAL: not
 * a transaction index that this version reads). */
int txn_index_read(const char *path, AbortedTxn **out);

#endif
