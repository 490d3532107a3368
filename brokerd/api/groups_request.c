/* What administrators asked for in SQL, and what the clock asks for: offsets that nobody needs any more. */
#include <stdlib.h>

#include "brokerd/api/groups_internal.h"

static void
on_expired(void *ctx, const MetaResult *r)
{
	Groups *groups = ctx;

	groups->expiring = false;
	if (groups->stopped || meta_result_status(r) != META_OK)
		return;
	for (int i = 0; i < meta_result_rows(r); i++)
	{
		group_deleted(groups->set, groups_now(),
					  (WStr){meta_result_text(r, i, 0), meta_result_length(r, i, 0)});
		groups_settle(groups);
	}
}

void
groups_expire_offsets(Groups *groups)
{
	MetaText slots = {0};
	MetaText retention = {0};
	const char *params[4] = {NULL};
	bool first = true;

	if (groups->expiring)
		return;
	meta_text_puts(&slots, "{");
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		if (!groups->ours[i] || groups->loading[i])
			continue;
		meta_text_printf(&slots, "%s%d", first ? "" : ",", i);
		first = false;
	}
	meta_text_puts(&slots, "}");
	meta_text_printf(&retention, "%lld",
					 (long long) groups->broker->config->offsets_retention_minutes * 60000);
	params[2] = meta_text_cstr(&slots);
	params[3] = meta_text_cstr(&retention);
	if (!first)
	{
		groups->expiring = true;
		meta_call(groups->broker->meta, META_GROUP_EXPIRE, params, 4, groups_now() + GROUPS_CALL_MS,
				  on_expired, groups);
	}
	meta_text_free(&slots);
	meta_text_free(&retention);
}

void
groups_take_requests(Groups *groups)
{
	(void) groups;
}
