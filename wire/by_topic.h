/*
 * by_topic.h: messages whose partitions stand under their topics, read and built without knowing which message it is.
 *
 * Many have a list of topics, and these one of their partitions: numbers, or structs that begin with one.  Which fields that are
 * say the tables: of a message it is the first list of structs, whose structs begin with a name, of a topic its first list.
 *
 *     part = wire_by_topic_add(&FetchRequest_desc, arena, &request, topic, 3)      one more partition
 *
 *     WireEachPart each = {.m = &FetchResponse_desc, .message = &response};
 *     while ((part = wire_by_topic_next(&each)) != NULL)                           one after the other
 *         use(each.topic, each.index, part);
 */
#ifndef WIRE_BY_TOPIC_H
#define WIRE_BY_TOPIC_H

#include "wire/codec.h"

/* The struct, with its defaults and its number, is good until the next one.  NULL: no memory. */
void *wire_by_topic_add(const WireMsg *m, Arena *a, void *message, WStr topic, int32_t index);

typedef struct WireEachPart
{
	const WireMsg *m;
	const void *message;
	int32_t t, p;      /* where we are */
	const WStr *topic; /* of the last one, as `index` */
	int32_t index;
} WireEachPart;

const void *wire_by_topic_next(WireEachPart *each); /* NULL: that was all */

/* A message's own field by its name in wire/schema; NULL: it has none of that name. */
void *wire_field(const WireMsg *m, const void *message, const char *name);

#endif
