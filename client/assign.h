/*
 * assign.h: who of a group reads which partition: Kafka's four assignors as functions of a description of the group,
 * with the same results as those of Kafka's Java client (so that any member of a mixed group may lead it).
 *
 * Partitions have numbers: those of topics[t] are first to first + n - 1.  The result is owner[partition], an index of
 * members, or -1 for nobody (cooperative: its former owner must let go first; the next round gives it).
 *
 * Some choices of the Java code follow the order in which its hash maps are walked: assign_by_bucket and assign_part_hash.
 */
#ifndef CLIENT_ASSIGN_H
#define CLIENT_ASSIGN_H

#include "wire/arena.h"
#include "wire/types.h"

typedef struct AssignTopic
{
	WStr name;
	int32_t n; /* 0: nobody knows the topic */
	int32_t first;
} AssignTopic;

typedef struct AssignMember
{
	WStr id;
	WStr instance;  /* len -1: not static */
	bool *takes;    /* by topic: subscribes to it */
	int32_t *owned; /* partitions that it says it had */
	int32_t n_owned;
	int32_t generation;     /* in which it had them; -1 = it does not say */
	int32_t sub_generation; /* of the subscription itself, -1 */
} AssignMember;

typedef struct AssignGroup
{
	AssignTopic *topics; /* by name */
	int32_t n_topics;
	AssignMember *members;
	int32_t n_members;
	int32_t n_parts;
	int32_t *owner;

	/* Of assign_by_name, for whatever its assignor needs: */
	Arena *arena;
	int32_t *topic; /* of a partition */
	bool *moving;   /* partitions that go from one member to another */
} AssignGroup;

typedef struct Assignor
{
	const char *name;
	bool cooperative; /* can it move single partitions? */
	int (*assign)(AssignGroup *g);
} Assignor;

/* "range", "roundrobin", "sticky" or "cooperative-sticky"; NULL: none of these. */
const Assignor *assign_find(WStr name);

/* -1: none of these, or no memory. */
int assign_by_name(WStr name, AssignGroup *g);

/* ---- between the files of the assignors ---- */

/* Zero; the arena's `failed` says when there was no memory. */
int32_t *assign_numbers(AssignGroup *g, int32_t n);

/* Gets `of` and two numbers of the list that is sorted; stable. */
typedef int AssignCompare(const void *of, int32_t a, int32_t b);
void assign_sort(int32_t *list, int32_t n, AssignCompare *compare, const void *of);
int assign_compare(WStr a, WStr b);

/* Of members: by id, and in the order of a Java HashMap of their ids that were put in in the order of g->members. */
int assign_by_id(const void *group, int32_t a, int32_t b);
int assign_by_bucket(const void *group, int32_t a, int32_t b);

/* Members that subscribe to a topic, or all (-1), sorted.  -1: no memory. */
int32_t assign_members(AssignGroup *g, int32_t topic, AssignCompare *compare, int32_t **list);

/* Java's of TopicPartition, spread as HashMap does. */
uint32_t assign_part_hash(const AssignGroup *g, int32_t part);

int assign_sticky(AssignGroup *g);

#endif
