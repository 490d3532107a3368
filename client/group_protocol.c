/*
 * group_protocol.c: subscriptions and assignments as members write them, and the leader's work.  What other members
 * wrote is somebody else's bytes: whatever cannot be read is a member that had nothing.
 */
#include "client/assign.h"
#include "client/consumer.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/bytes.h"

#define SUBSCRIPTION_VERSION 3

/* The next word of a list separated by commas; false at its end. */
static bool
next_word(const char **at, WStr *word)
{
	*at += strspn(*at, ", ");
	word->s = *at;
	word->len = (int32_t) strcspn(*at, ", ");
	*at += word->len;
	return word->len > 0;
}

int
group_check_assignors(const char *list, bool *cooperative, pgb_error *err)
{
	const char *at = list;
	WStr word;
	int n = 0;

	*cooperative = true;
	for (; next_word(&at, &word); n++)
	{
		char name[64];

		(void) snprintf(name, sizeof(name), "%.*s", (int) word.len, word.s);
		if (!assign_known(word.s, (size_t) word.len))
			return error_set(err, PGB_INVALID, false,
							 "partition.assignment.strategy knows range, roundrobin, sticky, "
							 "cooperative-sticky, not \"%s\"",
							 name);
		/* Only where all of them can. */
		*cooperative = *cooperative && assign_is_cooperative(name);
	}
	return n == 0 ? error_set(err, PGB_INVALID, false, "partition.assignment.strategy names no assignor") : 0;
}

/* ---- what we say ---- */

static void
put_int32(WireWriter *w, int32_t v)
{
	uint8_t b[4];

	put_be32(b, (uint32_t) v);
	wire_put_bytes(w, b, sizeof(b));
}

/* Topics with their partitions from a list in any order; `each` is called for a topic, then for its partitions. */
static int32_t
group_by_topic(const PlaceList *list, Arena *a, ConsumerProtocolSubscriptionOwnedPartitions **out)
{
	int32_t n = 0;

	*out = WIRE_NEW(ConsumerProtocolSubscriptionOwnedPartitions, a, (int32_t) list->n + 1);
	for (size_t i = 0; *out != NULL && i < list->n; i++)
	{
		ConsumerProtocolSubscriptionOwnedPartitions *t = *out;
		int32_t k = 0;

		while (k < n && !wstr_eq(t[k].topic, wstr(list->at[i].topic)))
			k++;
		if (k == n)
		{
			t[n].topic = wstr(list->at[i].topic);
			t[n].partitions = arena_alloc(a, sizeof(int32_t) * (list->n - i));
			if (t[n++].partitions == NULL)
				return -1;
		}
		t[k].partitions[t[k].n_partitions++] = list->at[i].partition;
	}
	return *out == NULL ? -1 : n;
}

/* What the assignor of that name wants to know besides. */
static int
put_user_data(pgb_consumer *c, const char *name, size_t len, WireWriter *w)
{
	ConsumerProtocolSubscriptionOwnedPartitions *had;
	int32_t n;

	if (len == strlen("cooperative-sticky") && memcmp(name, "cooperative-sticky", len) == 0)
		put_int32(w, c->sticky_generation);
	if (len != strlen("sticky") || memcmp(name, "sticky", len) != 0 || c->sticky_generation < 0)
		return 0;
	n = group_by_topic(&c->last_given, &c->c.arena, &had);
	put_int32(w, n);
	for (int32_t i = 0; i < n; i++)
	{
		uint8_t size[2];

		put_be16(size, (uint16_t) had[i].topic.len);
		wire_put_bytes(w, size, sizeof(size));
		wire_put_bytes(w, had[i].topic.s, (size_t) had[i].topic.len);
		put_int32(w, had[i].n_partitions);
		for (int32_t k = 0; k < had[i].n_partitions; k++)
			put_int32(w, had[i].partitions[k]);
	}
	put_int32(w, c->sticky_generation);
	return n < 0 ? -1 : 0;
}

static int
put_subscription(pgb_consumer *c, const char *name, size_t len, WireWriter *w)
{
	ConsumerProtocolSubscription sub;
	uint8_t version[2];
	PlaceList owned = {0};
	WireWriter user;
	FromPart *p, *next;
	int rc;

	WIRE_INIT(ConsumerProtocolSubscription, &sub);
	wire_writer_init(&user);
	sub.topics = arena_alloc(&c->c.arena, sizeof(WStr) * (c->n_topics + 1));
	for (size_t i = 0; sub.topics != NULL && i < c->n_topics; i++)
		sub.topics[sub.n_topics++] = wstr(c->topics[i]);
	HASH_ITER (hh, c->parts, p, next)
	{
		(void) places_add(&owned, p->key.topic->name, (int32_t) p->key.index, 0);
	}
	sub.n_owned_partitions = group_by_topic(&owned, &c->c.arena, &sub.owned_partitions);
	sub.generation_id = c->generation;
	rc = put_user_data(c, name, len, &user);
	sub.user_data = user.len == 0 ? WBYTES_NULL : (WBytes){user.buf, (int32_t) user.len};
	put_be16(version, SUBSCRIPTION_VERSION);
	wire_put_bytes(w, version, sizeof(version));
	if (rc != 0 || sub.topics == NULL || sub.n_owned_partitions < 0 || user.failed ||
		wire_encode(&ConsumerProtocolSubscription_desc, SUBSCRIPTION_VERSION, w, &sub) != 0)
		rc = -1;
	places_clear(&owned);
	wire_writer_free(&user);
	return rc;
}

int
group_put_protocols(pgb_consumer *c, JoinGroupRequest *req, WireWriter *bytes)
{
	size_t ends[16] = {0};
	const char *at = c->c.conf.assignors;
	WStr word;

	req->protocols = WIRE_NEW(JoinGroupRequestProtocols, &c->c.arena, 16);
	while (req->protocols != NULL && req->n_protocols < 16 && next_word(&at, &word))
	{
		if (put_subscription(c, word.s, (size_t) word.len, bytes) != 0)
			return -1;
		req->protocols[req->n_protocols].name = word;
		ends[req->n_protocols++] = bytes->len;
	}
	/* The writer may have moved its buffer while it grew. */
	for (int32_t i = 0; i < req->n_protocols; i++)
	{
		size_t from = i == 0 ? 0 : ends[i - 1];

		req->protocols[i].metadata = (WBytes){bytes->buf + from, (int32_t) (ends[i] - from)};
	}
	return req->protocols == NULL ? -1 : 0;
}

/* ---- what others say ---- */

/* In the arena, pointing into `metadata`. */
static bool
read_subscription(Arena *a, WBytes metadata, ConsumerProtocolSubscription *sub)
{
	WireReader r;
	int16_t version;

	if (metadata.len < 2)
		return false;
	version = (int16_t) get_be16(metadata.p);
	wire_reader_init(&r, metadata.p + 2, (size_t) metadata.len - 2);
	return version >= 0 &&
		   wire_decode(&ConsumerProtocolSubscription_desc,
					   version > SUBSCRIPTION_VERSION ? SUBSCRIPTION_VERSION : version, &r, a, sub) == 0;
}

/* Calls for every topic that a member subscribes to. */
static bool
each_topic(pgb_consumer *c, bool (*look)(pgb_consumer *c, Topic *t, uint64_t *sum), uint64_t *sum)
{
	bool good = true;

	for (int32_t i = 0; i < c->n_members; i++)
	{
		ConsumerProtocolSubscription sub;
		Arena a;

		arena_init(&a, 4096);
		if (read_subscription(&a, c->members[i].metadata, &sub))
			for (int32_t k = 0; k < sub.n_topics; k++)
			{
				Topic *t = metadata_topic(&c->c, sub.topics[k].s, (size_t) sub.topics[k].len);

				good = t != NULL && look(c, t, sum) && good;
			}
		arena_free(&a);
	}
	return good;
}

static bool
is_known(pgb_consumer *c, Topic *t, uint64_t *sum)
{
	(void) c;
	(void) sum;
	return t->unknown_since == 0 || t->code != 0;
}

static bool
add_count(pgb_consumer *c, Topic *t, uint64_t *sum)
{
	(void) c;
	*sum = *sum * 31 + (uint64_t) (t->unknown_since == 0 ? t->n : 0);
	return true;
}

/* Does metadata say of every topic in the group how many partitions it has, or that there is none of this name? */
bool
group_topics_known(pgb_consumer *c)
{
	return each_topic(c, is_known, NULL);
}

uint64_t
group_counts(pgb_consumer *c)
{
	uint64_t sum = 1;

	(void) each_topic(c, add_count, &sum);
	return sum;
}

/* ---- the leader's work ---- */

static int
compare_names(const void *a, const void *b)
{
	return assign_compare(((const AssignTopic *) a)->name, ((const AssignTopic *) b)->name);
}

static int32_t
find_topic(const AssignGroup *g, WStr name)
{
	AssignTopic key = {.name = name};
	const AssignTopic *t =
		g->n_topics == 0 ? NULL : bsearch(&key, g->topics, (size_t) g->n_topics, sizeof(*t), compare_names);

	return t == NULL ? -1 : (int32_t) (t - g->topics);
}

static bool
gather_topics(pgb_consumer *c, AssignGroup *g, const ConsumerProtocolSubscription *subs, Arena *a)
{
	int32_t most = 0, n = 0;

	for (int32_t i = 0; i < g->n_members; i++)
		most += subs[i].n_topics;
	g->topics = arena_alloc(a, sizeof(*g->topics) * ((size_t) most + 1));
	for (int32_t i = 0; g->topics != NULL && i < g->n_members; i++)
		for (int32_t k = 0; k < subs[i].n_topics; k++)
			g->topics[n++].name = subs[i].topics[k];
	if (g->topics == NULL)
		return false;
	qsort(g->topics, (size_t) n, sizeof(*g->topics), compare_names);
	for (int32_t i = 0; i < n; i++)
	{
		AssignTopic *t = &g->topics[g->n_topics];
		Topic *meta;

		if (g->n_topics > 0 && wstr_eq(t[-1].name, g->topics[i].name))
			continue;
		t->name = g->topics[i].name;
		meta = metadata_topic(&c->c, t->name.s, (size_t) t->name.len);
		t->n = meta == NULL || meta->unknown_since != 0 ? 0 : meta->n;
		t->first = g->n_parts;
		g->n_parts += t->n;
		g->n_topics++;
	}
	g->owner = arena_alloc(a, sizeof(int32_t) * ((size_t) g->n_parts + 1));
	return g->owner != NULL;
}

static void
claim(const AssignGroup *g, AssignMember *m, WStr topic, int32_t partition)
{
	int32_t t = find_topic(g, topic);

	if (t >= 0 && partition >= 0 && partition < g->topics[t].n)
		m->owned[m->n_owned++] = g->topics[t].first + partition;
}

/* The user data of "sticky": topics with partitions as int32, then (not in the oldest form) a generation. */
static void
read_sticky(const AssignGroup *g, AssignMember *m, WBytes data, Arena *a)
{
	const uint8_t *p = data.len > 0 ? data.p : (const uint8_t *) "", *end = p + (data.len > 0 ? data.len : 0);

	m->n_owned = 0;
	m->generation = -1;
	m->has_generation = false;
	m->owned = arena_alloc(a, sizeof(int32_t) * ((size_t) (end - p) / 4 + 1));
	if (end - p < 4 || m->owned == NULL)
		return;
	m->has_generation = true;
	p += 4;
	for (int32_t n = (int32_t) get_be32(data.p); n > 0 && end - p >= 2; n--)
	{
		WStr topic = {(const char *) p + 2, get_be16(p)};
		int32_t k;

		p += 2;
		if (end - p < topic.len + 4)
		{
			m->n_owned = 0;
			return;
		}
		p += topic.len + 4;
		for (k = (int32_t) get_be32(p - 4); k > 0 && end - p >= 4; k--, p += 4)
			claim(g, m, topic, (int32_t) get_be32(p));
	}
	m->has_generation = end - p >= 4;
	m->generation = m->has_generation ? (int32_t) get_be32(p) : -1;
}

static bool
gather_member(pgb_consumer *c, const AssignGroup *g, AssignMember *m, const ConsumerProtocolSubscription *sub,
			  Arena *a)
{
	size_t owned = 0;

	m->topics = arena_alloc(a, sizeof(int32_t) * ((size_t) sub->n_topics + 1));
	for (int32_t i = 0; m->topics != NULL && i < sub->n_topics; i++)
	{
		int32_t t = find_topic(g, sub->topics[i]);

		if (t >= 0 && !assign_subscribed(m, t))
			m->topics[m->n_topics++] = t;
	}
	for (int32_t i = 0; i < sub->n_owned_partitions; i++)
		owned += (size_t) sub->owned_partitions[i].n_partitions;
	m->owned = arena_alloc(a, sizeof(int32_t) * (owned + 1));
	if (m->topics == NULL || m->owned == NULL)
		return false;
	for (int32_t i = 0; i < sub->n_owned_partitions; i++)
		for (int32_t k = 0; k < sub->owned_partitions[i].n_partitions; k++)
			claim(g, m, sub->owned_partitions[i].topic, sub->owned_partitions[i].partitions[k]);
	m->sub_generation = m->generation = sub->generation_id;
	m->has_generation = sub->generation_id >= 0;
	if (strcmp(c->protocol, "sticky") == 0)
		read_sticky(g, m, sub->user_data, a);
	/* Before subscriptions had a generation it stood in the user data. */
	else if (!m->has_generation && sub->user_data.len >= 4)
	{
		m->generation = (int32_t) get_be32(sub->user_data.p);
		m->has_generation = true;
	}
	return true;
}

static bool
put_assignment(const AssignGroup *g, int32_t me, WireWriter *w, Arena *a)
{
	ConsumerProtocolAssignment as;

	WIRE_INIT(ConsumerProtocolAssignment, &as);
	as.assigned_partitions = WIRE_NEW(ConsumerProtocolAssignmentAssignedPartitions, a, g->n_topics + 1);
	for (int32_t t = 0; as.assigned_partitions != NULL && t < g->n_topics; t++)
	{
		ConsumerProtocolAssignmentAssignedPartitions *at = &as.assigned_partitions[as.n_assigned_partitions];

		at->topic = g->topics[t].name;
		at->n_partitions = 0;
		for (int32_t k = 0; k < g->topics[t].n; k++)
			if (g->owner[g->topics[t].first + k] == me)
			{
				if (at->partitions == NULL &&
					(at->partitions = arena_alloc(a, sizeof(int32_t) * (size_t) g->topics[t].n)) == NULL)
					return false;
				at->partitions[at->n_partitions++] = k;
			}
		as.n_assigned_partitions += at->n_partitions > 0;
	}
	wire_put_bytes(w, "\0", 2); /* version 0: every client reads it, and later ones add nothing */
	return as.assigned_partitions != NULL && wire_encode(&ConsumerProtocolAssignment_desc, 0, w, &as) == 0;
}

int
group_assign(pgb_consumer *c, SyncGroupRequest *req, WireWriter *bytes)
{
	AssignGroup g = {.n_members = c->n_members};
	size_t n = (size_t) c->n_members + 1;
	Arena *a = &c->c.arena;
	ConsumerProtocolSubscription *subs = arena_alloc(a, sizeof(*subs) * n);
	size_t *ends = arena_alloc(a, sizeof(*ends) * n);
	bool good = subs != NULL && ends != NULL;

	g.members = arena_alloc(a, sizeof(*g.members) * n);
	req->assignments = WIRE_NEW(SyncGroupRequestAssignments, a, c->n_members);
	good = good && g.members != NULL && req->assignments != NULL;
	for (int32_t i = 0; good && i < g.n_members; i++)
		if (!read_subscription(a, c->members[i].metadata, &subs[i]))
			WIRE_INIT(ConsumerProtocolSubscription, &subs[i]);
	good = good && gather_topics(c, &g, subs, a);
	for (int32_t i = 0; good && i < g.n_members; i++)
	{
		g.members[i] = (AssignMember){.id = c->members[i].id, .instance = c->members[i].instance};
		good = gather_member(c, &g, &g.members[i], &subs[i], a);
	}
	good = good && assign_by_name(c->protocol, &g) == 0;
	for (int32_t i = 0; good && i < g.n_members; i++)
	{
		good = put_assignment(&g, i, bytes, a);
		ends[i] = bytes->len;
	}
	for (int32_t i = 0; good && i < g.n_members; i++)
	{
		size_t from = i == 0 ? 0 : ends[i - 1];

		req->assignments[i].member_id = c->members[i].id;
		req->assignments[i].assignment = (WBytes){bytes->buf + from, (int32_t) (ends[i] - from)};
		req->n_assignments++;
	}
	return good ? 0 : -1;
}

/* ---- what the leader gave us ---- */

int
group_read_assignment(pgb_consumer *c, WBytes assignment)
{
	ConsumerProtocolAssignment as;
	WireReader r;
	Arena a;
	int rc = 0;

	places_clear(&c->next_given);
	if (assignment.len <= 0)
		return 0;
	if (assignment.len < 2 || (int16_t) get_be16(assignment.p) < 0)
		return -1;
	arena_init(&a, 4096);
	wire_reader_init(&r, assignment.p + 2, (size_t) assignment.len - 2);
	if (wire_decode(&ConsumerProtocolAssignment_desc, 0, &r, &a, &as) != 0)
		rc = -1;
	for (int32_t i = 0; rc == 0 && i < as.n_assigned_partitions; i++)
	{
		const ConsumerProtocolAssignmentAssignedPartitions *p = &as.assigned_partitions[i];
		Topic *t = metadata_topic(&c->c, p->topic.s, (size_t) p->topic.len);

		for (int32_t k = 0; t != NULL && k < p->n_partitions; k++)
			if (p->partitions[k] >= 0 &&
				!places_add(&c->next_given, t->name, p->partitions[k], PGB_COMMITTED))
				rc = -1;
	}
	arena_free(&a);
	return rc;
}
