#include "brokerd/group/consumer_protocol.h"

#include <stdio.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/utf8.h"

typedef struct Reader
{
	const uint8_t *p;
	const uint8_t *end;
	bool failed;
} Reader;

static size_t
left(const Reader *r)
{
	return (size_t) (r->end - r->p);
}

static int32_t
read_int32(Reader *r)
{
	int32_t v;

	if (r->failed || left(r) < 4)
	{
		r->failed = true;
		return 0;
	}
	v = (int32_t) get_be32(r->p);
	r->p += 4;
	return v;
}

static WStr
read_string(Reader *r)
{
	WStr s;

	if (r->failed || left(r) < 2)
	{
		r->failed = true;
		return WSTR_LIT("");
	}
	s = (WStr){(const char *) r->p + 2, (int16_t) get_be16(r->p)};
	if (s.len < 0 || left(r) - 2 < (size_t) s.len)
	{
		r->failed = true;
		return WSTR_LIT("");
	}
	r->p += 2 + s.len;
	return s;
}

/* A count of things that take at least `least` bytes each; null (-1) is none. */
static int32_t
read_count(Reader *r, size_t least)
{
	int32_t n = read_int32(r);

	if (n < -1 || (n > 0 && (size_t) n > left(r) / least))
		r->failed = true;
	return r->failed || n < 0 ? 0 : n;
}

/* Both kinds begin with a version, which is not negative. */
static Reader
begin(WBytes b)
{
	Reader r = {b.p, b.p + (b.len > 0 ? b.len : 0), b.len < 2};

	if (!r.failed)
	{
		r.failed = (int16_t) get_be16(r.p) < 0;
		r.p += 2;
	}
	return r;
}

bool
consumer_subscription_topics(WBytes metadata, ConsumerTopicFn fn, void *arg)
{
	Reader r = begin(metadata);
	int32_t n = read_count(&r, 2);

	for (int32_t i = 0; i < n && !r.failed; i++)
	{
		WStr topic = read_string(&r);

		if (!r.failed)
			fn(arg, topic);
	}
	return !r.failed;
}

typedef void (*TopicFn)(void *arg, WStr topic, Reader *partitions, int32_t n);

static bool
walk_assignment(WBytes assignment, TopicFn fn, void *arg)
{
	Reader r = begin(assignment);
	int32_t topics;

	if (assignment.len <= 0)
		return true;
	topics = read_count(&r, 6);
	for (int32_t i = 0; i < topics && !r.failed; i++)
	{
		WStr topic = read_string(&r);
		int32_t n = read_count(&r, 4);

		if (!r.failed)
			fn(arg, topic, &r, n);
	}
	return !r.failed;
}

typedef struct EachPartition
{
	ConsumerPartitionFn fn;
	void *arg;
} EachPartition;

static void
each_partition(void *arg, WStr topic, Reader *partitions, int32_t n)
{
	EachPartition *each = arg;

	for (int32_t i = 0; i < n; i++)
		each->fn(each->arg, topic, read_int32(partitions));
}

bool
consumer_assignment_partitions(WBytes assignment, ConsumerPartitionFn fn, void *arg)
{
	return walk_assignment(assignment, each_partition, &(EachPartition){fn, arg});
}

/* ---- JSON ---- */

typedef struct JsonOut
{
	char *buf;
	size_t size;
	size_t len; /* what it takes, also beyond `size` */
	bool bad;
	bool any;
} JsonOut;

static void
json_put(JsonOut *o, const char *s, size_t len)
{
	if (o->len + len < o->size)
		memcpy(o->buf + o->len, s, len);
	o->len += len;
}

static void
json_string(JsonOut *o, WStr s)
{
	/* jsonb cannot hold a NUL; no topic has one. */
	if (!utf8_valid((const uint8_t *) s.s, (size_t) s.len) || memchr(s.s, 0, (size_t) s.len) != NULL)
	{
		o->bad = true;
		return;
	}
	json_put(o, "\"", 1);
	for (int32_t i = 0; i < s.len; i++)
	{
		uint8_t c = (uint8_t) s.s[i];
		char esc[8];

		if (c == '"' || c == '\\')
			json_put(o, "\\", 1);
		if (c < 0x20)
			json_put(o, esc, (size_t) snprintf(esc, sizeof(esc), "\\u%04x", c));
		else
			json_put(o, (const char *) &s.s[i], 1);
	}
	json_put(o, "\"", 1);
}

static void
json_topic(void *arg, WStr topic, Reader *partitions, int32_t n)
{
	JsonOut *o = arg;
	char number[16];

	json_put(o, ", ", o->any ? 2 : 0);
	o->any = true;
	json_string(o, topic);
	json_put(o, ": [", 3);
	for (int32_t i = 0; i < n; i++)
	{
		json_put(o, ", ", i > 0 ? 2 : 0);
		json_put(o, number, (size_t) snprintf(number, sizeof(number), "%d", read_int32(partitions)));
	}
	json_put(o, "]", 1);
}

ptrdiff_t
consumer_assignment_json(WBytes assignment, char *buf, size_t size)
{
	JsonOut o = {buf, size, 0, false, false};

	json_put(&o, "{", 1);
	if (!walk_assignment(assignment, json_topic, &o) || o.bad)
		return -1;
	json_put(&o, "}", 1);
	if (o.len >= size)
		return -1;
	buf[o.len] = '\0';
	return (ptrdiff_t) o.len;
}

/* A byte becomes six at most (\u0001); four bytes of a partition become thirteen; a topic has ten around it. */
size_t
consumer_assignment_json_size(WBytes assignment)
{
	return 16 + (assignment.len > 0 ? (size_t) assignment.len * 6 : 0);
}
