/*
 * tables.h: what the generated messages.c defines for the engine.  Everybody else asks wire_api().
 */
#ifndef WIRE_TABLES_H
#define WIRE_TABLES_H

#include "wire/codec.h"

extern const WireApi wire_apis[]; /* by rising key */
extern const int wire_n_apis;

#endif
