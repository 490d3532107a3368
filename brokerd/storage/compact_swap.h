/*
 * compact_swap.h: files that take the place of others, so that a crash at any moment leaves either the one or the
 * other, and a start knows which.  The names and their meaning are Kafka's.
 *
 *     what a start finds                    means                          and does
 *     x.cleaned                             was being written              removes it
 *     x.swap, with a .cleaned at or         was being renamed: the old     removes both
 *       below its base offset               files are all there
 *     x.swap                                complete, and may replace      removes the segments that begin within
 *                                                                          the offsets of the .log.swap files, then
 *                                                                          renames
 *     .index.swap, .timeindex.swap          the .log has its name, or        removes the index, which is built again
 *       without the .log.swap               never got there
 *     x.deleted                             has been replaced              removes it
 */
#ifndef BROKERD_STORAGE_COMPACT_SWAP_H
#define BROKERD_STORAGE_COMPACT_SWAP_H

#include "brokerd/storage/internal.h"

#define CLEANED_SUFFIX ".cleaned"
#define SWAP_SUFFIX    ".swap"

/* At a start, before the folder's segments are looked at; blocking.  False: `why` says why the log cannot be used;
 * `*damaged`: no other start will find it better. */
bool compact_recover(Log *log, char *why, size_t cap, bool *damaged) __attribute__((warn_unused_result));

#endif
