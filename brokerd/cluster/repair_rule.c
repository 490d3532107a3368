#include "brokerd/cluster/repair_rule.h"

/* After each time twice as long as before. */
static bool
is_too_soon(const RepairInput *in)
{
	int64_t pause = REPAIR_PAUSE_FIRST_MS;

	if (in->since_last_ms < 0)
		return false;
	for (int i = 1; i < in->set_aside && pause < REPAIR_PAUSE_MOST_MS; i++)
		pause *= 2;
	return in->since_last_ms < (pause < REPAIR_PAUSE_MOST_MS ? pause : REPAIR_PAUSE_MOST_MS);
}

bool
repair_should_resign(const RepairInput *in)
{
	if (!in->is_replica || in->n_replicas < 2 || (!in->is_broken && !in->is_stuck))
		return false;
	/* Whether somebody else can lead PostgreSQL knows better: it knows who is eligible, too. */
	if (in->is_leading)
		return true;
	if (!in->is_broken || !in->is_leader_serving || is_too_soon(in))
		return false;
	/* It has said so, and the image is not there yet. */
	if (in->out_epoch >= in->leader_epoch && in->out_epoch > 0)
		return false;
	return in->isr_size - (in->in_isr ? 1 : 0) >= in->min_isr;
}

bool
repair_may_set_aside(const RepairInput *in)
{
	return in->is_broken && in->is_replica && !in->is_leading && in->is_leader_serving && !in->in_isr &&
		   in->isr_size >= in->min_isr && in->out_epoch > 0 && in->out_epoch == in->leader_epoch &&
		   !is_too_soon(in);
}
