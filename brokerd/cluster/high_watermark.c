#include "brokerd/cluster/high_watermark.h"

int
hw_effective_min_isr(int min_isr, int n_assigned)
{
	return min_isr < n_assigned ? min_isr : n_assigned;
}

int64_t
hw_next(const HwInput *in)
{
	int64_t least = in->leader_synced_end;

	if (in->isr_size < hw_effective_min_isr(in->min_isr, in->n_assigned))
		return in->current;
	for (int i = 0; i < in->n_followers; i++)
		if (in->followers[i].counts && in->followers[i].synced_end < least)
			least = in->followers[i].synced_end;
	return least > in->current ? least : in->current;
}
