/*
 * janitor.h: the slow and small writes of a data directory, on a thread of their own: checkpoints, epoch
 * files, producer snapshots, fsync of sealed indexes, probes of a full disk.  Called on the loop.
 *
 * The order that recovery relies on: a log's epoch file and the indexes of its sealed segments are on disk
 * before a recovery point beyond them is.
 */
#ifndef BROKERD_STORAGE_JANITOR_H
#define BROKERD_STORAGE_JANITOR_H

#include "brokerd/storage/manager.h"

void janitor_tick(LogManager *m, int64_t wall_ms);
void janitor_segment_sealed(LogSegment *s, WriteOp *op); /* index written: sync it, write the snapshot */
/* Write all checkpoints and epoch files now (log_raise_start waits for its log start offset). */
void janitor_checkpoint(LogManager *m);
void janitor_sync_dir(LogManager *m);       /* names in the data directory changed */
bool janitor_checkpoint_now(LogManager *m); /* blocking, at the stop: the thread is gone */

#endif
