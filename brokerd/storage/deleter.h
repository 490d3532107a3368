/*
 * deleter.h: files and folders that go away in the background.
 *
 * A big file is cut by 4 MiB every 10 ms before it is unlinked: removing gigabytes at once on ext4 with
 * `discard` makes every fdatasync of the disk wait for hundreds of milliseconds (hazards D).  Nothing is cut
 * while a slice still reads from it: tasks are added when the last reference is gone.
 */
#ifndef BROKERD_STORAGE_DELETER_H
#define BROKERD_STORAGE_DELETER_H

#include "brokerd/storage/internal.h"

/* A deleted log's folder, kept by each of its segments that is still read. */
typedef struct RetiredDir RetiredDir;

bool deleter_start(LogManager *m);
/* What is left stays where it is: its name says that the next start has to delete it. */
void deleter_stop(LogManager *m);
/* `base`: path of a segment without suffix; its files are called BASE.log.deleted and so on. */
void deleter_add_segment(LogManager *m, const char *base, int64_t due_ms);
void deleter_add_dir(LogManager *m, const char *path, int64_t due_ms);

RetiredDir *retired_dir_new(const char *path, int64_t due_ms);
RetiredDir *retired_dir_ref(RetiredDir *d);
void retired_dir_unref(LogManager *m, RetiredDir *d); /* NULL is allowed */

#endif
