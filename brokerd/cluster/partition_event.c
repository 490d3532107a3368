/* partition_event.c: what happens to a partition here, as history in SQL. */
#include "brokerd/cluster/internal.h"
#include "brokerd/meta/text.h"

void
partition_event(Meta *meta, const Partition *p, const char *kind, const char *more)
{
	MetaText object = {0}, details = {0};

	meta_text_printf(&object, "%s-%d", p->topic->name, p->index);
	meta_text_puts(&details, "{\"topic\":");
	meta_text_json(&details, p->topic->name, p->topic->name_len);
	meta_text_printf(&details, ",\"partition\":%d%s}", p->index, more);
	meta_event(meta, kind, meta_text_cstr(&object), meta_text_cstr(&details));
	meta_text_free(&object);
	meta_text_free(&details);
}
