/*
 * lines.c: the pure functions of the client as a filter: a question a line on standard input, an answer a line on
 * standard output.  regress/client/java/Assign.java answers the same questions with Kafka's own code.
 *
 *     murmur2;N;HEX      rdmurmur2;N;HEX     the partition of a key, ours and librdkafka's
 *     crc32;N;HEX        rdcrc32;N;HEX
 *     ASSIGNOR;topic:partitions,...;MEMBER;MEMBER...     who gets what:  member=topic:partition,...;...
 *         MEMBER is  id|instance or -|generation it had them in or -|generation of the subscription or -|topic,...|topic:partition,...
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/assign.h"
#include "client/partitioner.h"

#define MOST 4096

static AssignTopic topics[MOST];
static AssignMember members[MOST];
static int32_t owner[1 << 20];

/* The text up to `stop`, cut out; *at goes behind it. */
static char *
word(char **at, const char *stop)
{
	char *start = *at;
	size_t len = strcspn(start, stop);

	*at = start + len + (start[len] != '\0');
	start[len] = '\0';
	return start;
}

static int
compare_topics(const void *a, const void *b)
{
	return assign_compare(((const AssignTopic *) a)->name, ((const AssignTopic *) b)->name);
}

static int32_t
topic_index(AssignGroup *g, const char *name)
{
	for (int32_t i = 0; i < g->n_topics; i++)
		if (wstr_eq(g->topics[i].name, wstr(name)))
			return i;
	return -1;
}

static void
read_member(AssignGroup *g, char *text)
{
	AssignMember *m = &g->members[g->n_members++];
	char *instance, *generation, *sub, *list, *owned;

	memset(m, 0, sizeof(*m));
	m->id = wstr(word(&text, "|"));
	instance = word(&text, "|");
	generation = word(&text, "|");
	sub = word(&text, "|");
	list = word(&text, "|");
	owned = text;
	m->instance = strcmp(instance, "-") == 0 ? WSTR_NULL : wstr(instance);
	m->generation = strcmp(generation, "-") != 0 ? atoi(generation) : -1;
	m->sub_generation = strcmp(sub, "-") != 0 ? atoi(sub) : -1;
	m->takes = calloc(MOST, sizeof(bool));
	m->owned = malloc(sizeof(int32_t) * MOST * 4);
	while (*list != '\0')
		m->takes[topic_index(g, word(&list, ","))] = true;
	while (*owned != '\0')
	{
		char *item = word(&owned, ","), *colon = strrchr(item, ':');
		int32_t t, number = atoi(colon + 1);

		*colon = '\0';
		t = topic_index(g, item);
		if (t >= 0 && number < g->topics[t].n)
			m->owned[m->n_owned++] = g->topics[t].first + number;
	}
}

static int
compare_ids(const void *a, const void *b)
{
	return assign_compare(members[*(const int32_t *) a].id, members[*(const int32_t *) b].id);
}

static void
print_group(const AssignGroup *g)
{
	int32_t order[MOST];

	for (int32_t i = 0; i < g->n_members; i++)
		order[i] = i;
	qsort(order, (size_t) g->n_members, sizeof(order[0]), compare_ids);
	for (int32_t i = 0; i < g->n_members; i++)
	{
		const char *comma = "";

		printf("%s%.*s=", i > 0 ? ";" : "", (int) members[order[i]].id.len, members[order[i]].id.s);
		for (const AssignTopic *t = g->topics; t < g->topics + g->n_topics; t++)
			for (int32_t k = 0; k < t->n; k++)
				if (g->owner[t->first + k] == order[i])
				{
					printf("%s%.*s:%d", comma, (int) t->name.len, t->name.s, k);
					comma = ",";
				}
	}
}

static void
group(const char *assignor, char *line)
{
	AssignGroup g = {.topics = topics, .members = members, .owner = owner};
	char *list = word(&line, ";");

	while (*list != '\0')
	{
		char *item = word(&list, ","), *colon = strrchr(item, ':');

		*colon = '\0';
		topics[g.n_topics++] = (AssignTopic){wstr(item), atoi(colon + 1), 0};
	}
	qsort(topics, (size_t) g.n_topics, sizeof(topics[0]), compare_topics);
	for (int32_t i = 0; i < g.n_topics; i++)
	{
		topics[i].first = g.n_parts;
		g.n_parts += topics[i].n;
	}
	while (*line != '\0')
		read_member(&g, word(&line, ";"));
	if (assign_by_name(wstr(assignor), &g) == 0)
		print_group(&g);
	for (int32_t i = 0; i < g.n_members; i++)
	{
		free(members[i].takes);
		free(members[i].owned);
	}
}

static int32_t
partition(rd_kafka_topic_t *rkt, const char *how, char *line)
{
	int32_t n = atoi(word(&line, ";"));
	uint8_t key[1024];
	size_t len = 0;
	unsigned byte;

	for (; sscanf(line, "%2x", &byte) == 1; line += 2)
		key[len++] = (uint8_t) byte;
	if (strcmp(how, "murmur2") == 0)
		return partition_murmur2(key, len, n);
	if (strcmp(how, "crc32") == 0)
		return partition_crc32(key, len, n);
	if (strcmp(how, "rdmurmur2") == 0)
		return rd_kafka_msg_partitioner_murmur2(rkt, key, len, n, NULL, NULL);
	return rd_kafka_msg_partitioner_consistent(rkt, key, len, n, NULL, NULL);
}

int
main(void)
{
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
	rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, "t", NULL);
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) >= 0)
	{
		char *at = line, *what = word(&at, ";");

		line[strcspn(line, "\n")] = '\0';
		at[strcspn(at, "\n")] = '\0';
		if (strstr(what, "crc32") != NULL || strstr(what, "murmur2") != NULL)
			printf("%d", partition(rkt, what, at));
		else
			group(what, at);
		printf("\n");
		fflush(stdout);
	}
	free(line);
	rd_kafka_topic_destroy(rkt);
	rd_kafka_destroy(rk);
	return 0;
}
