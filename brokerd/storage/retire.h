/*
 * retire.h: segments and logs on their way out.  Loop thread.
 *
 *     retire_segment        out of the list at once; the writer renames its files to .deleted
 *     last reference gone   the deleter shrinks and unlinks them, after file.delete.delay.ms
 */
#ifndef BROKERD_STORAGE_RETIRE_H
#define BROKERD_STORAGE_RETIRE_H

#include "brokerd/storage/internal.h"

/* The end of the name of a log's folder that was set aside: TOPIC-PARTITION.UUID-corrupt. */
#define SET_ASIDE_SUFFIX "-corrupt"

void retire_segment(Log *log, int index, const char *reason);
void retire_done(LogSegment *s); /* the writer has renamed its files */
/* "orders-0.UUID-delete": the topic is cut so that the name has at most 255 bytes, as Kafka does. */
void retired_dir_name(const Log *log, const char *suffix, char *out, size_t cap);
/* The writer knows nothing of a deleted log any more: free it once no job is left. */
void retire_log_if_done(Log *log);

#endif
