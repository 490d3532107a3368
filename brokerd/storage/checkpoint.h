/*
 * checkpoint.h: Kafka's text files of offsets and of leader epochs.
 *
 *     0                 version
 *     2                 number of lines that follow
 *     orders 0 4711     topic, partition, offset          (or: epoch, start offset)
 *     orders 1 0
 */
#ifndef BROKERD_STORAGE_CHECKPOINT_H
#define BROKERD_STORAGE_CHECKPOINT_H

#include "brokerd/base/err.h"
#include "brokerd/storage/epoch_cache.h"
#include "brokerd/storage/file_io.h"

#define RECOVERY_CHECKPOINT    "recovery-point-offset-checkpoint"
#define REPLICATION_CHECKPOINT "replication-offset-checkpoint"
#define LOG_START_CHECKPOINT   "log-start-offset-checkpoint"
#define CLEANER_CHECKPOINT     "cleaner-offset-checkpoint"
#define EPOCH_CHECKPOINT       "leader-epoch-checkpoint"

void checkpoint_begin(TextBuf *t, int rows);
void checkpoint_add(TextBuf *t, const char *topic, int32_t partition, int64_t offset);
void checkpoint_epochs(TextBuf *t, const EpochCache *c);

/* `row` is called for each line; a missing or empty file has none.  False: Err says what is wrong with it. */
typedef void (*CheckpointRowFn)(void *ctx, const char *topic, int32_t partition, int64_t offset);
bool checkpoint_read(const char *path, CheckpointRowFn row, void *ctx, Err *err);
bool checkpoint_read_epochs(const char *path, EpochCache *c, Err *err);

#endif
