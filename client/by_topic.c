#include "client/client.h"

static void *
member(const void *of, size_t offset)
{
	return (char *) (uintptr_t) of + offset;
}

/* One more struct at the end of a list in the arena, which doubles. */
static void *
append(Arena *a, void **list, int32_t *n, const WireMsg *desc, size_t size)
{
	if ((*n & (*n - 1)) == 0)
	{
		void *more = arena_alloc(a, size * (*n == 0 ? 1 : (size_t) *n * 2));

		if (more == NULL)
			return NULL;
		if (*n > 0)
			memcpy(more, *list, size * (size_t) *n);
		*list = more;
	}
	void *item = member(*list, size * (size_t) (*n)++);

	if (desc != NULL)
		wire_init(desc, item);
	return item;
}

void *
by_topic_add(const ByTopic *at, Arena *a, void *message, WStr topic, int32_t index)
{
	void **topics = member(message, at->topics), *t = NULL;
	int32_t *n = member(message, at->n_topics), *part;

	for (int32_t i = *n - 1; i >= 0 && t == NULL; i--)
	{
		WStr *name = member(*topics, (size_t) i * at->topic->size);

		if (name->s == topic.s || wstr_eq(*name, topic))
			t = name;
	}
	if (t == NULL && (t = append(a, topics, n, at->topic, at->topic->size)) != NULL)
		*(WStr *) t = topic;
	if (t == NULL)
		return NULL;
	part = append(a, member(t, at->parts), member(t, at->n_parts), at->part,
				  at->part == NULL ? sizeof(int32_t) : at->part->size);
	if (part != NULL)
		*part = index;
	return part;
}

void
by_topic_each(const ByTopic *at, Client *c, const void *message,
			  void (*look)(void *arg, Topic *t, int32_t index, const void *part), void *arg)
{
	for (int32_t i = 0; i < *(int32_t *) member(message, at->n_topics); i++)
	{
		WStr *name = member(*(void **) member(message, at->topics), (size_t) i * at->topic->size);
		Topic *t = metadata_find(c, *name);

		for (int32_t k = 0; t != NULL && k < *(int32_t *) member(name, at->n_parts); k++)
		{
			const int32_t *part = member(*(void **) member(name, at->parts), (size_t) k * at->part->size);

			look(arg, t, *part, part);
		}
	}
}
