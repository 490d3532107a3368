#include "wire/by_topic.h"

static void *
member(const void *of, size_t offset)
{
	return (char *) (uintptr_t) of + offset;
}

void *
wire_field(const WireMsg *m, const void *message, const char *name)
{
	for (int i = 0; i < m->n_fields; i++)
		if (strcmp(m->fields[i].name, name) == 0)
			return member(message, m->fields[i].offset);
	return NULL;
}

/* A message's list of topics, or a topic's of partitions (structs, or just numbers): the first list that is there. */
static const WireField *
list_of(const WireMsg *m, bool of_structs)
{
	const WireField *f = m->fields;

	while ((f->flags & WF_ARRAY) == 0 || (of_structs && f->sub == NULL))
		f++;
	return f;
}

static int32_t *
count(const WireField *list, const void *of)
{
	return member(of, list->n_offset);
}

static void *
item(const WireField *list, const void *of, int32_t i)
{
	size_t size = list->sub == NULL ? sizeof(int32_t) : list->sub->size;

	return member(*(void **) member(of, list->offset), (size_t) i * size);
}

/* One more at the end of a list in the arena, which doubles. */
static void *
append(Arena *a, const WireField *list, void *of)
{
	size_t size = list->sub == NULL ? sizeof(int32_t) : list->sub->size;
	int32_t n = *count(list, of);
	void *added, *more;

	if ((n & (n - 1)) == 0)
	{
		more = arena_alloc(a, size * (n == 0 ? 1 : (size_t) n * 2));
		if (more == NULL)
			return NULL;
		if (n > 0)
			memcpy(more, item(list, of, 0), size * (size_t) n);
		*(void **) member(of, list->offset) = more;
	}
	added = item(list, of, (*count(list, of))++);
	if (list->sub != NULL)
		wire_init(list->sub, added);
	return added;
}

void *
wire_by_topic_add(const WireMsg *m, Arena *a, void *message, WStr topic, int32_t index)
{
	const WireField *topics = list_of(m, true);
	int32_t i = *count(topics, message) - 1, *part;
	WStr *t = NULL;

	/* Mostly it is that of the last one. */
	for (; i >= 0 && (t = item(topics, message, i))->s != topic.s && !wstr_eq(*t, topic); i--)
		;
	if (i < 0 && (t = append(a, topics, message)) != NULL)
		*t = topic;
	part = t == NULL ? NULL : append(a, list_of(topics->sub, false), t);
	if (part != NULL)
		*part = index;
	return part;
}

const void *
wire_by_topic_next(WireEachPart *each)
{
	const WireField *topics = list_of(each->m, true), *parts = list_of(topics->sub, false);

	for (; each->t < *count(topics, each->message); each->t++, each->p = 0)
	{
		each->topic = item(topics, each->message, each->t);
		if (each->p < *count(parts, each->topic))
		{
			const int32_t *part = item(parts, each->topic, each->p++);

			each->index = *part;
			return part;
		}
	}
	return NULL;
}
