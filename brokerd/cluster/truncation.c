#include "brokerd/cluster/truncation.h"

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t
truncation_point(const TruncationInput *in)
{
	if (in->own_epoch < 0 || in->own_end < 0)
		return least(in->leader_end, in->log_end);
	if (in->own_epoch == in->leader_epoch)
		return least(least(in->own_end, in->leader_end), in->log_end);
	return least(in->own_end, in->log_end);
}
