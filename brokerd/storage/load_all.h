/*
 * load_all.h: everything under the data directory at start, on several threads.  Blocking.
 */
#ifndef BROKERD_STORAGE_LOAD_ALL_H
#define BROKERD_STORAGE_LOAD_ALL_H

#include "brokerd/storage/manager.h"

bool load_all(LogManager *m, Err *err);

#endif
