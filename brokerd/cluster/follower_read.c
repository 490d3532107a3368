#include "brokerd/cluster/follower_read.h"

#include "wire/errors.h"

int16_t
follower_may_serve(const FollowerReadInput *in)
{
	if (!in->registered || !in->in_isr || in->now_ms - in->heard_ms > in->lag_max_ms)
		return KERR_NOT_LEADER_OR_FOLLOWER;
	return in->agreed ? KERR_NONE : KERR_OFFSET_NOT_AVAILABLE;
}

int16_t
follower_check_offset(const FollowerOffsets *at, int64_t offset)
{
	if (offset < at->log_start)
		return KERR_OFFSET_OUT_OF_RANGE;
	if (offset <= at->end)
		return KERR_NONE;
	return offset <= at->leader_high_watermark ? KERR_OFFSET_NOT_AVAILABLE : KERR_OFFSET_OUT_OF_RANGE;
}
