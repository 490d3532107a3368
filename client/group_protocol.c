/*
 * group_protocol.c: subscriptions and assignments as members write them, and the leader's work.  What other members
 * wrote is somebody else's bytes: whatever cannot be read is a member that had nothing.
 */
#include "client/assign.h"
#include "client/consumer.h"

#include <stdlib.h>

#include "wire/bytes.h"

#define SUBSCRIPTION_VERSION 3
#define ASSIGNMENT_VERSION   0 /* every client reads it, and later ones add nothing */

static const ByTopic owned_partitions =
	BY_TOPIC(ConsumerProtocolSubscription, owned_partitions, ConsumerProtocolSubscriptionOwnedPartitions,
			 partitions, NULL);
static const ByTopic assigned_partitions =
	BY_TOPIC(ConsumerProtocolAssignment, assigned_partitions, ConsumerProtocolAssignmentAssignedPartitions,
			 partitions, NULL);

/* A version, then the message.  In the arena; len -1: no memory. */
static WBytes
pack(Arena *a, const WireMsg *desc, int16_t version, const void *message)
{
	WBytes packed = WBYTES_NULL;
	WireWriter w;
	uint8_t *head;

	wire_writer_init(&w);
	head = wire_put_room(&w, 2);
	if (head != NULL)
		put_be16(head, (uint16_t) version);
	if (wire_encode(desc, version, &w, message) == 0 && !w.failed)
		packed = (WBytes){arena_copy(a, w.buf, w.len), (int32_t) w.len};
	if (packed.p == NULL)
		packed.len = -1;
	wire_writer_free(&w);
	return packed;
}

/* In the arena, pointing into `bytes`.  Of a version that we do not know what we know of it. */
static bool
unpack(Arena *a, const WireMsg *desc, int16_t most, WBytes bytes, void *message)
{
	WireReader r;
	int16_t version;

	if (bytes.len < 2)
		return false;
	version = (int16_t) get_be16(bytes.p);
	wire_reader_init(&r, bytes.p + 2, (size_t) bytes.len - 2);
	return version >= 0 && wire_decode(desc, version > most ? most : version, &r, a, message) == 0;
}

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
	WStr word;

	if (list[strspn(list, ", ")] == '\0')
		return error_set(err, PGB_INVALID, false, "partition.assignment.strategy names no assignor");
	/* Only where all of them can. */
	for (*cooperative = true; next_word(&list, &word);
		 *cooperative = *cooperative && assign_is_cooperative(word))
		if (!assign_known(word))
			return error_set(err, PGB_INVALID, false,
							 "partition.assignment.strategy knows range, roundrobin, sticky, "
							 "cooperative-sticky, not \"%.*s\"",
							 (int) word.len, word.s);
	return 0;
}

/* ---- what we say ---- */

static void
put_int32(WireWriter *w, int32_t v)
{
	uint8_t b[4];

	put_be32(b, (uint32_t) v);
	wire_put_bytes(w, b, sizeof(b));
}

/* What "sticky" wants to know besides: topics with their partitions, and the generation in which we had them. */
static void
put_sticky(const pgb_consumer *c, const ConsumerProtocolSubscription *had, WireWriter *w)
{
	put_int32(w, had->n_owned_partitions);
	for (int32_t i = 0; i < had->n_owned_partitions; i++)
	{
		const ConsumerProtocolSubscriptionOwnedPartitions *t = &had->owned_partitions[i];
		uint8_t size[2];

		put_be16(size, (uint16_t) t->topic.len);
		wire_put_bytes(w, size, sizeof(size));
		wire_put_bytes(w, t->topic.s, (size_t) t->topic.len);
		put_int32(w, t->n_partitions);
		for (int32_t k = 0; k < t->n_partitions; k++)
			put_int32(w, t->partitions[k]);
	}
	put_int32(w, c->sticky_generation);
}

static WBytes
subscription(pgb_consumer *c, WStr assignor)
{
	ConsumerProtocolSubscription sub, had;
	Arena *a = &c->c.arena;
	FromPart *p, *next;
	WireWriter user;
	WBytes packed;
	bool good;

	WIRE_INIT(ConsumerProtocolSubscription, &sub);
	WIRE_INIT(ConsumerProtocolSubscription, &had);
	wire_writer_init(&user);
	sub.topics = arena_alloc(a, sizeof(WStr) * (c->n_topics + 1));
	good = sub.topics != NULL;
	for (size_t i = 0; good && i < c->n_topics; i++)
		sub.topics[sub.n_topics++] = wstr(c->topics[i]->name);
	HASH_ITER (hh, c->parts, p, next)
	{
		good = good && by_topic_add(&owned_partitions, a, &sub, wstr(p->key.topic->name),
									(int32_t) p->key.index) != NULL;
	}
	for (size_t i = 0; i < c->last_given.n; i++)
		good = good && by_topic_add(&owned_partitions, a, &had, wstr(c->last_given.at[i].topic),
									c->last_given.at[i].partition) != NULL;
	sub.generation_id = c->generation;
	if (wstr_eq(assignor, WSTR_LIT("cooperative-sticky")))
		put_int32(&user, c->sticky_generation);
	else if (wstr_eq(assignor, WSTR_LIT("sticky")) && c->sticky_generation >= 0)
		put_sticky(c, &had, &user);
	if (user.len > 0)
		sub.user_data = (WBytes){user.buf, (int32_t) user.len};
	packed = pack(a, &ConsumerProtocolSubscription_desc, SUBSCRIPTION_VERSION, &sub);
	good = good && !user.failed;
	wire_writer_free(&user);
	return good ? packed : WBYTES_NULL;
}

int
group_put_protocols(pgb_consumer *c, JoinGroupRequest *req)
{
	const char *at = c->c.conf.assignors;
	WStr word;

	req->protocols = WIRE_NEW(JoinGroupRequestProtocols, &c->c.arena, (int32_t) strlen(at) / 2 + 1);
	while (req->protocols != NULL && next_word(&at, &word))
	{
		JoinGroupRequestProtocols *p = &req->protocols[req->n_protocols++];

		p->name = word;
		p->metadata = subscription(c, word);
		if (p->metadata.len < 0)
			return -1;
	}
	return req->protocols == NULL ? -1 : 0;
}

/* ---- the leader's work ---- */

bool
group_topics_known(pgb_consumer *c, uint64_t *counts)
{
	bool known = true;

	*counts = 1;
	for (int32_t i = 0; i < c->n_members; i++)
	{
		ConsumerProtocolSubscription sub;
		Arena a;

		arena_init(&a, 4096);
		if (!unpack(&a, &ConsumerProtocolSubscription_desc, SUBSCRIPTION_VERSION, c->members[i].metadata,
					&sub))
			sub.n_topics = 0;
		for (int32_t k = 0; k < sub.n_topics; k++)
		{
			Topic *t = metadata_topic(&c->c, sub.topics[k]);

			known = known && (t == NULL || t->unknown_since == 0 || t->code != 0);
			*counts = *counts * 31 + (uint64_t) (t != NULL && t->unknown_since == 0 ? t->n : 0);
		}
		arena_free(&a);
	}
	return known;
}

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
		meta = metadata_topic(&c->c, t->name);
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

/* The user data of "sticky" (see put_sticky); the oldest form has no generation. */
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

static WBytes
assignment(const AssignGroup *g, int32_t me, Arena *a)
{
	ConsumerProtocolAssignment as;

	WIRE_INIT(ConsumerProtocolAssignment, &as);
	for (int32_t t = 0; t < g->n_topics; t++)
		for (int32_t k = 0; k < g->topics[t].n; k++)
			if (g->owner[g->topics[t].first + k] == me &&
				by_topic_add(&assigned_partitions, a, &as, g->topics[t].name, k) == NULL)
				return WBYTES_NULL;
	return pack(a, &ConsumerProtocolAssignment_desc, ASSIGNMENT_VERSION, &as);
}

int
group_assign(pgb_consumer *c, SyncGroupRequest *req)
{
	AssignGroup g = {.n_members = c->n_members};
	size_t n = (size_t) c->n_members + 1;
	Arena *a = &c->c.arena;
	ConsumerProtocolSubscription *subs = arena_alloc(a, sizeof(*subs) * n);

	g.members = arena_alloc(a, sizeof(*g.members) * n);
	req->assignments = WIRE_NEW(SyncGroupRequestAssignments, a, c->n_members);
	if (subs == NULL || g.members == NULL || req->assignments == NULL)
		return -1;
	for (int32_t i = 0; i < g.n_members; i++)
		if (!unpack(a, &ConsumerProtocolSubscription_desc, SUBSCRIPTION_VERSION, c->members[i].metadata,
					&subs[i]))
			WIRE_INIT(ConsumerProtocolSubscription, &subs[i]);
	if (!gather_topics(c, &g, subs, a))
		return -1;
	for (int32_t i = 0; i < g.n_members; i++)
	{
		g.members[i] = (AssignMember){.id = c->members[i].id, .instance = c->members[i].instance};
		if (!gather_member(c, &g, &g.members[i], &subs[i], a))
			return -1;
	}
	if (assign_by_name(c->protocol, &g) != 0)
		return -1;
	for (req->n_assignments = 0; req->n_assignments < g.n_members; req->n_assignments++)
	{
		SyncGroupRequestAssignments *to = &req->assignments[req->n_assignments];

		to->member_id = c->members[req->n_assignments].id;
		to->assignment = assignment(&g, req->n_assignments, a);
		if (to->assignment.len < 0)
			return -1;
	}
	return 0;
}

/* ---- what the leader gave us ---- */

int
group_read_assignment(pgb_consumer *c, WBytes bytes)
{
	ConsumerProtocolAssignment as;
	Arena a;
	int rc = 0;

	places_clear(&c->next_given);
	if (bytes.len <= 0)
		return 0;
	arena_init(&a, 4096);
	if (!unpack(&a, &ConsumerProtocolAssignment_desc, ASSIGNMENT_VERSION, bytes, &as))
		rc = -1;
	for (int32_t i = 0; rc == 0 && i < as.n_assigned_partitions; i++)
	{
		const ConsumerProtocolAssignmentAssignedPartitions *p = &as.assigned_partitions[i];
		Topic *t = metadata_topic(&c->c, p->topic);

		for (int32_t k = 0; t != NULL && k < p->n_partitions; k++)
			if (p->partitions[k] >= 0 &&
				!places_add(&c->next_given, t->name, p->partitions[k], PGB_COMMITTED))
				rc = -1;
	}
	arena_free(&a);
	return rc;
}
