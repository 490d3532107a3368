#include "brokerd/cluster/isr.h"

bool
isr_belongs(const IsrInput *in, const IsrFollower *f)
{
	if (!f->in_isr)
		return f->is_live && f->synced_end >= 0 && f->synced_end >= in->high_watermark &&
			   f->synced_end >= in->epoch_start && in->now_ms - f->fetched_ms <= in->lag_max_ms;
	return f->synced_end >= in->leader_end || in->now_ms - f->caught_up_ms <= in->lag_max_ms;
}
