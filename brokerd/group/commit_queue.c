#include "brokerd/group/commit_queue.h"

#include <stdlib.h>
#include <string.h>

#include "brokerd/group/internal.h"

/* One request; its rows and their bytes are behind it in the same allocation. */
typedef struct Entry
{
	struct Entry *next;
	size_t size; /* of the allocation */
	uint64_t request;
	WStr group_id;
	int32_t slot;
	int64_t slot_epoch;
	int32_t generation;
	int64_t added;
	uint32_t batch; /* not 0: goes out again with those of the same number, and with no others */
	bool answered;  /* while it was out: not to be sent again */
	int32_t row_count;
	CommitRow rows[];
} Entry;

/* An ordinary request; what is larger is not kept to be used again. */
#define ENTRY_SIZE       ((size_t) 512)
#define FREE_ENTRIES_MAX 256

typedef struct EntryList
{
	Entry *first;
	Entry **end;
	int32_t count;
} EntryList;

struct CommitQueue
{
	int32_t max_rows;
	CommitAnswerFn answer;
	void *arg;
	EntryList waiting; /* oldest first */
	EntryList out;
	bool is_out;
	uint32_t batches;      /* numbers given */
	CommitOut *rows;       /* of the batch that is out */
	struct Sorted *sorted; /* while it is made */
	int32_t rows_cap;      /* of both */
	Entry *free_entries;   /* of ENTRY_SIZE bytes each */
	int32_t n_free_entries;
	CommitBatch batch;
};

static void
list_init(EntryList *list)
{
	*list = (EntryList){NULL, &list->first, 0};
}

static void
list_append(EntryList *list, Entry *e)
{
	e->next = NULL;
	*list->end = e;
	list->end = &e->next;
	list->count++;
}

static Entry *
list_take_first(EntryList *list)
{
	Entry *e = list->first;

	list->first = e->next;
	if (list->first == NULL)
		list->end = &list->first;
	list->count--;
	return e;
}

/* All of `list` before what `queue` has; `list` is empty afterwards. */
static void
list_prepend_all(EntryList *queue, EntryList *list)
{
	if (list->first == NULL)
		return;
	*list->end = queue->first;
	if (queue->first == NULL)
		queue->end = list->end;
	queue->first = list->first;
	queue->count += list->count;
	list_init(list);
}

CommitQueue *
commit_queue_new(int32_t max_rows, CommitAnswerFn answer, void *arg)
{
	CommitQueue *q = group_alloc(sizeof(*q));

	q->max_rows = max_rows;
	q->answer = answer;
	q->arg = arg;
	list_init(&q->waiting);
	list_init(&q->out);
	return q;
}

static Entry *
entry_new(CommitQueue *q, size_t size)
{
	Entry *e = q->free_entries;

	if (e == NULL || size > ENTRY_SIZE)
	{
		size = size > ENTRY_SIZE ? size : ENTRY_SIZE;
		e = group_alloc(size);
	}
	else
	{
		size = ENTRY_SIZE;
		q->free_entries = e->next;
		q->n_free_entries--;
	}
	memset(e, 0, sizeof(*e));
	e->size = size;
	return e;
}

static void
entry_free(CommitQueue *q, Entry *e)
{
	if (e->size != ENTRY_SIZE || q->n_free_entries == FREE_ENTRIES_MAX)
	{
		free(e);
		return;
	}
	e->next = q->free_entries;
	q->free_entries = e;
	q->n_free_entries++;
}

static void
free_all(EntryList *list)
{
	while (list->first != NULL)
		free(list_take_first(list));
}

void
commit_queue_free(CommitQueue *q)
{
	if (q == NULL)
		return;
	free_all(&q->waiting);
	free_all(&q->out);
	while (q->free_entries != NULL)
	{
		Entry *e = q->free_entries;

		q->free_entries = e->next;
		free(e);
	}
	free(q->sorted);
	free(q->rows);
	free(q);
}

static WStr
copy_bytes(char **p, WStr s)
{
	WStr copy = {*p, s.len < 0 ? 0 : s.len};

	if (copy.len > 0)
		memcpy(*p, s.s, (size_t) copy.len);
	*p += copy.len;
	return copy;
}

void
commit_queue_add(CommitQueue *q, int64_t now, const CommitRequest *in)
{
	size_t size = sizeof(Entry) + (size_t) in->row_count * sizeof(CommitRow) + (size_t) in->group_id.len;
	Entry *e;
	char *p;

	for (int32_t i = 0; i < in->row_count; i++)
		size += in->rows[i].metadata.len > 0 ? (size_t) in->rows[i].metadata.len : 0;
	e = entry_new(q, size);
	p = (char *) (e->rows + in->row_count);
	e->request = in->request;
	e->group_id = copy_bytes(&p, in->group_id);
	e->slot = in->slot;
	e->slot_epoch = in->slot_epoch;
	e->generation = in->generation;
	e->added = now;
	e->row_count = in->row_count;
	for (int32_t i = 0; i < in->row_count; i++)
	{
		e->rows[i] = in->rows[i];
		e->rows[i].metadata = copy_bytes(&p, in->rows[i].metadata);
	}
	list_append(&q->waiting, e);
}

/* ---- the next batch ---- */

/* Those that have to go together, or as many as fit. */
static int32_t
take_requests(CommitQueue *q)
{
	uint32_t number = q->waiting.first->batch;
	int32_t rows = 0;

	while (q->waiting.first != NULL && q->waiting.first->batch == number)
	{
		Entry *e = q->waiting.first;

		if (number == 0 && rows > 0 && rows + e->row_count > q->max_rows)
			break;
		rows += e->row_count;
		list_append(&q->out, list_take_first(&q->waiting));
	}
	return rows;
}

static int
compare_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
	size_t len = a_len < b_len ? a_len : b_len;
	int c = len == 0 ? 0 : memcmp(a, b, len);

	return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

/* Any order will do, as long as it is everybody's: batches of two coordinators lock rows alike. */
static int
compare_keys(const CommitOut *a, const CommitOut *b)
{
	int c = compare_bytes(a->group_id.s, (size_t) a->group_id.len, b->group_id.s, (size_t) b->group_id.len);

	if (c == 0)
		c = (a->generation > b->generation) - (a->generation < b->generation);
	if (c == 0)
		c = memcmp(a->row->topic_id.b, b->row->topic_id.b, sizeof(a->row->topic_id.b));
	if (c == 0)
		c = (a->row->partition > b->row->partition) - (a->row->partition < b->row->partition);
	return c;
}

/* Equal keys by age; `order` is not kept beyond the sort. */
typedef struct Sorted
{
	CommitOut out;
	int32_t order;
} Sorted;

static int
compare_sorted(const void *a, const void *b)
{
	const Sorted *x = a;
	const Sorted *y = b;
	int c = compare_keys(&x->out, &y->out);

	return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static void
fill_batch(CommitQueue *q, int32_t rows)
{
	Sorted *sorted;
	int32_t n = 0;
	int32_t kept = 0;

	if (rows > q->rows_cap)
	{
		q->sorted = group_realloc(q->sorted, (size_t) rows * sizeof(*q->sorted));
		q->rows = group_realloc(q->rows, (size_t) rows * sizeof(*q->rows));
		q->rows_cap = rows;
	}
	sorted = q->sorted;
	for (const Entry *e = q->out.first; e != NULL; e = e->next)
	{
		for (int32_t i = 0; i < e->row_count; i++, n++)
			sorted[n] = (Sorted){{e->group_id, e->slot, e->slot_epoch, e->generation, &e->rows[i]}, n};
	}
	if (n > 1)
		qsort(sorted, (size_t) n, sizeof(*sorted), compare_sorted);
	for (int32_t i = 0; i < n; i++)
	{
		/* The last one of a key wins. */
		if (i + 1 < n && compare_keys(&sorted[i].out, &sorted[i + 1].out) == 0)
			continue;
		q->rows[kept++] = sorted[i].out;
	}
	q->batch = (CommitBatch){q->rows, kept, q->out.count};
}

const CommitBatch *
commit_queue_next(CommitQueue *q)
{
	if (q->is_out || q->waiting.first == NULL)
		return NULL;
	fill_batch(q, take_requests(q));
	q->is_out = true;
	return &q->batch;
}

/* ---- what became of it ---- */

static int16_t
refusal(const Entry *e, const CommitRefused *refused, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
	{
		if (refused[i].generation == e->generation && wstr_eq(refused[i].group_id, e->group_id))
			return refused[i].error;
	}
	return KERR_NONE;
}

/* Those that nobody waits for any more are not sent again. */
static void
forget_answered(CommitQueue *q, EntryList *list)
{
	EntryList kept;

	list_init(&kept);
	while (list->first != NULL)
	{
		Entry *e = list_take_first(list);

		if (e->answered)
			entry_free(q, e);
		else
			list_append(&kept, e);
	}
	list_init(list);
	list_prepend_all(list, &kept);
}

/* Number the entries so that they go out again in `parts` batches. */
static void
number(CommitQueue *q, EntryList *list, int32_t parts)
{
	int32_t first = (list->count + parts - 1) / parts;
	int32_t i = 0;

	for (Entry *e = list->first; e != NULL; e = e->next, i++)
	{
		if (i == 0 || i == first)
		{
			if (++q->batches == 0)
				q->batches = 1;
		}
		e->batch = q->batches;
	}
}

static void
answer_all(CommitQueue *q, EntryList *list, const CommitRefused *refused, int32_t refused_count,
		   int16_t otherwise)
{
	while (list->first != NULL)
	{
		Entry *e = list_take_first(list);
		int16_t error = refusal(e, refused, refused_count);

		if (!e->answered)
			q->answer(q->arg, e->request, error != KERR_NONE ? error : otherwise);
		entry_free(q, e);
	}
}

void
commit_queue_done(CommitQueue *q, CommitOutcome outcome, const CommitRefused *refused, int32_t refused_count)
{
	EntryList list;

	if (!q->is_out)
		return;
	list_init(&list);
	list_prepend_all(&list, &q->out);
	list_init(&q->out);
	q->is_out = false;
	q->batch = (CommitBatch){NULL, 0, 0};
	if (outcome == COMMIT_DONE)
	{
		answer_all(q, &list, refused, refused_count, KERR_NONE);
		return;
	}
	if (outcome == COMMIT_FAILED && list.count == 1)
	{
		answer_all(q, &list, NULL, 0, KERR_UNKNOWN_SERVER_ERROR);
		return;
	}
	forget_answered(q, &list);
	number(q, &list, outcome == COMMIT_FAILED ? 2 : 1);
	list_prepend_all(&q->waiting, &list);
}

/* ---- giving up ---- */

typedef bool (*EntryTest)(const Entry *e, int64_t arg);

static bool
is_older(const Entry *e, int64_t before)
{
	return e->added < before;
}

static bool
is_of_slot(const Entry *e, int64_t slot)
{
	return e->slot == slot;
}

static void
give_up(CommitQueue *q, EntryTest test, int64_t arg, int16_t error)
{
	EntryList dropped;
	EntryList kept;

	for (Entry *e = q->out.first; e != NULL; e = e->next)
	{
		if (e->answered || !test(e, arg))
			continue;
		e->answered = true;
		q->answer(q->arg, e->request, error);
	}
	list_init(&dropped);
	list_init(&kept);
	while (q->waiting.first != NULL)
	{
		Entry *e = list_take_first(&q->waiting);

		list_append(test(e, arg) ? &dropped : &kept, e);
	}
	list_init(&q->waiting);
	list_prepend_all(&q->waiting, &kept);
	answer_all(q, &dropped, NULL, 0, error);
}

void
commit_queue_expire(CommitQueue *q, int64_t before, int16_t error)
{
	give_up(q, is_older, before, error);
}

void
commit_queue_drop_slot(CommitQueue *q, int32_t slot, int16_t error)
{
	give_up(q, is_of_slot, slot, error);
}

/* ---- looking ---- */

bool
commit_queue_has_group(const CommitQueue *q, WStr group_id)
{
	for (const Entry *e = q->waiting.first; e != NULL; e = e->next)
	{
		if (wstr_eq(e->group_id, group_id))
			return true;
	}
	return false;
}

int64_t
commit_queue_oldest(const CommitQueue *q)
{
	int64_t oldest = INT64_MAX;

	for (const Entry *e = q->out.first; e != NULL; e = e->next)
	{
		if (!e->answered && e->added < oldest)
			oldest = e->added;
	}
	if (q->waiting.first != NULL && q->waiting.first->added < oldest)
		oldest = q->waiting.first->added;
	return oldest;
}

int32_t
commit_queue_waiting(const CommitQueue *q)
{
	int32_t n = q->waiting.count;

	for (const Entry *e = q->out.first; e != NULL; e = e->next)
		n += !e->answered;
	return n;
}
