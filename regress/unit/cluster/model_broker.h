/*
 * model_broker.h: what a brokerd does with the partition: as leader, as follower, and with what PostgreSQL says.
 */
#ifndef REGRESS_UNIT_CLUSTER_MODEL_BROKER_H
#define REGRESS_UNIT_CLUSTER_MODEL_BROKER_H

#include "brokerd/cluster/isr.h"
#include "brokerd/cluster/truncation.h"
#include "regress/unit/cluster/model_pg.h"

/* ---- the log ---- */

static void
log_add(Disk *d, Entry e)
{
	if (epoch_cache_latest(&d->epochs) < e.epoch)
		epoch_cache_assign(&d->epochs, e.epoch, d->end);
	d->log[d->end++] = e;
}

static void
log_cut(Disk *d, int end)
{
	d->end = end < d->end ? end : d->end;
	d->synced = end < d->synced ? end : d->synced;
	d->high_watermark = end < d->high_watermark ? end : d->high_watermark;
	epoch_cache_truncate_end(&d->epochs, d->end);
}

/* partition_epoch_end() */
static void
epoch_end(const World *w, const Broker *b, int32_t epoch, int32_t *found, int64_t *end)
{
	int32_t latest = epoch_cache_latest(&b->disk.epochs);

	if (epoch == b->leader_epoch ||
		(epoch < b->leader_epoch && epoch > latest && (latest >= 0 || !w->rules.empty_log_is_silent)))
	{
		*found = epoch == b->leader_epoch || latest < 0 ? epoch : latest;
		*end = b->disk.end;
		return;
	}
	epoch_cache_end(&b->disk.epochs, epoch, b->disk.end, found, end);
}

/* ---- as leader ---- */

/* log_epoch_is_kept() */
static bool
epoch_is_kept(const Disk *d, int32_t epoch, int high_watermark)
{
	return (d->begun == epoch && d->begun_end >= high_watermark) ||
		   (epoch_cache_latest(&d->epochs) == epoch && d->synced > d->epochs.e[d->epochs.n - 1].start_offset);
}

/* begun_epochs_apply(): what its files say of epochs after a start. */
static void
read_begun(Disk *d)
{
	if (d->begun > epoch_cache_latest(&d->epochs) && d->end >= d->begun_end)
		epoch_cache_assign(&d->epochs, d->begun, d->end);
}

/* partition_advance() */
static void
advance(World *w, int id)
{
	Broker *b = &w->brokers[id];
	HwReplica followers[BROKERS_MAX];
	HwInput in = {.current = b->high_watermark,
				  .leader_synced_end = w->rules.leader_counts_unsynced ? b->disk.end : b->disk.synced,
				  .isr_size = b->isr_size,
				  .min_isr = w->rules.hw_moves_below_min_isr ? 1 : w->min_isr,
				  .n_assigned = w->n,
				  .followers = followers};
	int hw;

	if (!b->leading)
		return;
	for (int i = 0; i < w->n; i++)
	{
		const Follower *f = &b->lead.followers[i];
		bool counts = f->in_isr || (f->adding && !w->rules.adding_counts_when_landed);

		if (i != id)
			followers[in.n_followers++] =
				(HwReplica){counts && !(f->removing && w->rules.removing_counts_no_more), f->synced_end};
	}
	hw = (int) hw_next(&in);
	if (hw > b->high_watermark && !w->rules.hw_moves_before_epoch_is_kept &&
		!epoch_is_kept(&b->disk, b->leader_epoch, hw))
	{
		/* It is there before the high watermark moves, which may be never. */
		if (epoch_cache_latest(&b->disk.epochs) < b->leader_epoch)
			epoch_cache_assign(&b->disk.epochs, b->leader_epoch, b->disk.end);
		b->disk.begun = b->leader_epoch;
		b->disk.begun_end = b->disk.synced;
		return;
	}
	b->high_watermark = hw;
	show(w, id);
}

static void
forget_wish(Lead *lead)
{
	for (int i = 0; i < BROKERS_MAX; i++)
		lead->followers[i].adding = lead->followers[i].removing = false;
	lead->unsettled = false;
	lead->sent_epoch = -1;
}

/* follower_set_in_isr() */
static void
set_in_isr(const World *w, Follower *f, bool in_isr)
{
	if (in_isr && !f->in_isr)
		f->caught_up = w->now;
	f->in_isr = in_isr;
}

/* isr_changes_heard() */
static void
heard(Lead *lead, int32_t partition_epoch)
{
	if (lead->sent_epoch < 0 || partition_epoch > lead->sent_epoch)
		forget_wish(lead);
}

/* fill_change(): an unsettled change is followed by the ISR as it is confirmed. */
static void
send_change(World *w, int id)
{
	Broker *b = &w->brokers[id];
	Message *m = post(w, ALTER, id, id);

	if (m == NULL)
		return;
	m->id = b->lead.request = ++w->ids;
	m->broker_epoch = b->broker_epoch;
	m->leader_epoch = b->leader_epoch;
	m->partition_epoch = b->lead.sent_epoch = b->partition_epoch;
	m->isr = ONE(id);
	m->epochs[id] = -1;
	for (int i = 0; i < w->n; i++)
	{
		const Follower *f = &b->lead.followers[i];

		m->epochs[i] = -1;
		if (i == id || !(b->lead.unsettled ? f->in_isr : (f->in_isr || f->adding) && !f->removing))
			continue;
		m->isr |= ONE(i);
		m->epochs[i] = f->broker_epoch;
	}
	b->lead.in_flight = true;
	say(w, "broker %d asks for ISR %x where @%d%s", id, m->isr, m->partition_epoch,
		b->lead.unsettled ? ", to settle what it asked before" : "");
}

/* leadership_consider() */
static void
consider(World *w, int id)
{
	Broker *b = &w->brokers[id];
	bool changes = false;
	IsrInput in = {.high_watermark = b->high_watermark,
				   .epoch_start = w->rules.joins_before_epoch_start ? 0 : b->epoch_start,
				   .leader_end = b->disk.end,
				   .now_ms = w->now,
				   .lag_max_ms = LAG_MAX_STEPS};

	if (!b->leading || b->lead.in_flight || b->broker_epoch < 0 || !b->connected || w->now < b->lead.retry_at)
		return;
	if (b->lead.unsettled)
	{
		send_change(w, id);
		return;
	}
	for (int i = 0; i < w->n; i++)
	{
		Follower *f = &b->lead.followers[i];
		IsrFollower as = {.in_isr = f->in_isr,
						  .is_live =
							  (b->image.serving & ONE(i)) != 0 && b->image.epochs[i] == f->broker_epoch,
						  .synced_end = f->synced_end,
						  .fetched_ms = f->last_fetch,
						  .caught_up_ms = f->caught_up};
		bool belongs;

		if (i == id)
			continue;
		belongs = isr_belongs(&in, &as);
		f->adding = belongs && !f->in_isr;
		f->removing = !belongs && f->in_isr;
		changes = changes || belongs != f->in_isr;
	}
	if (changes)
		send_change(w, id);
	advance(w, id);
}

/* isr_changes.c on_reply() and take_row() */
static void
take_reply(World *w, const Message *m)
{
	Broker *b = &w->brokers[m->to];
	Lead *lead = &b->lead;

	if (!lead->in_flight || lead->request != m->id || lead->leader_epoch != m->leader_epoch ||
		b->leader_epoch != m->leader_epoch)
		return;
	lead->in_flight = false;
	if (m->row.partition_epoch < 0 || (!m->landed && m->row.partition_epoch <= m->partition_epoch))
	{
		if (!lead->unsettled)
			forget_wish(lead);
		lead->retry_at = w->now + 5;
	}
	else if (m->row.leader_epoch != b->leader_epoch && !w->rules.replaced_leader_forgets)
		/* Another leads: what was asked for counts until the metadata ends this leadership. */
		lead->retry_at = w->now + 5;
	else
	{
		forget_wish(lead);
		if (m->row.partition_epoch >= b->partition_epoch && m->row.leader_epoch == b->leader_epoch)
		{
			b->partition_epoch = m->row.partition_epoch;
			b->isr_size = set_size(m->row.isr);
			for (int i = 0; i < w->n; i++)
				set_in_isr(w, &lead->followers[i], i != m->to && (m->row.isr & ONE(i)) != 0);
		}
	}
	say(w, "broker %d hears that its change %s: @%d", m->to, m->landed ? "landed" : "did not land",
		m->row.partition_epoch);
	advance(w, m->to);
	consider(w, m->to);
}

/* The session broke, or the deadline passed: it may have been written, and may still be. */
static void
lose_reply(World *w, int id)
{
	Lead *lead = &w->brokers[id].lead;

	if (!lead->in_flight)
		return;
	say(w, "broker %d does not know what became of its change", id);
	lead->in_flight = false;
	lead->request = 0;
	lead->retry_at = w->now + 5;
	if (w->rules.unknown_is_failed)
		forget_wish(lead);
	else if (lead->sent_epoch >= 0)
		lead->unsettled = true;
	advance(w, id);
}

/* partition_divergence(): false is OFFSET_OUT_OF_RANGE. */
static bool
diverges(const World *w, const Broker *b, const Message *m, Message *out)
{
	int64_t end;

	out->diverging = false;
	if (m->last_epoch >= 0 && !w->rules.no_divergence_check)
	{
		epoch_end(w, b, m->last_epoch, &out->diverging_epoch, &end);
		if (out->diverging_epoch < 0 || end < 0)
			return false;
		out->diverging_end = (int) end;
		out->diverging = out->diverging_epoch < m->last_epoch || end < m->offset;
	}
	if (!out->diverging && m->offset > b->disk.end)
	{
		out->diverging = true;
		out->diverging_epoch = epoch_cache_latest(&b->disk.epochs);
		out->diverging_end = b->disk.end;
	}
	return true;
}

/* partition_follower_fetched() */
static bool
note_fetch(World *w, int id, const Message *m)
{
	Broker *b = &w->brokers[id];
	Follower *f = &b->lead.followers[m->from];

	if (m->broker_epoch < f->broker_epoch)
		return false;
	if (m->broker_epoch > f->broker_epoch)
	{
		f->broker_epoch = m->broker_epoch;
		f->last_fetch = f->last_fetch_end = -1;
	}
	if (m->offset >= b->disk.end)
		f->caught_up = w->now;
	else if (f->last_fetch >= 0 && m->offset >= f->last_fetch_end && f->last_fetch > f->caught_up)
		f->caught_up = f->last_fetch;
	f->last_fetch = w->now;
	f->last_fetch_end = b->disk.end;
	f->synced_end = m->offset;
	return true;
}

/* replica_fetch.c, replica_session.c note_progress() */
static void
take_fetch(World *w, const Message *m)
{
	Broker *b = &w->brokers[m->to];
	Message *out;

	if (m->broker_epoch < b->image.epochs[m->from] || !b->leading || b->leader_epoch != m->leader_epoch)
		return; /* refused: asked again */
	out = post(w, ANSWER, m->to, m->from);
	if (out == NULL)
		return;
	out->id = m->id;
	out->leader_epoch = m->leader_epoch;
	if (!diverges(w, b, m, out))
	{
		out->kind = NO_MESSAGE;
		/* One that has heard of later epochs than this leader asks until this one hears of them, too. */
		if (m->last_epoch <= b->leader_epoch)
			violate(w, "broker %d has no answer to a fetch of broker %d at epoch %d", m->to, m->from,
					m->last_epoch);
		return;
	}
	if ((!out->diverging || w->rules.diverged_progress_counts) && !note_fetch(w, m->to, m))
	{
		out->kind = NO_MESSAGE;
		return;
	}
	say(w, "broker %d at %d..%d gets a fetch of broker %d from %d%s", m->to, b->high_watermark, b->disk.end,
		m->from, m->offset, out->diverging ? ": diverging" : "");
	advance(w, m->to);
	consider(w, m->to);
	out->offset = m->offset;
	out->high_watermark = b->high_watermark;
	for (int i = m->offset; !out->diverging && i < b->disk.end && out->n < m->n; i++)
		out->entries[out->n++] = b->disk.log[i];
}

/* ---- as follower ---- */

static void
ask(World *w, int id, int most)
{
	Broker *b = &w->brokers[id];
	Message *m;

	if (!b->up || b->broker_epoch < 0 || b->leading || b->leader < 0 || b->leader == id ||
		!w->brokers[b->leader].up)
		return;
	/* A follower asks for more when what it has is synced. */
	if (b->disk.synced < b->disk.end && !w->rules.follower_asks_unsynced)
		return;
	m = post(w, FETCH, id, b->leader);
	if (m == NULL)
		return;
	m->id = b->asked = ++w->ids;
	m->broker_epoch = b->broker_epoch;
	m->leader_epoch = b->leader_epoch;
	m->last_epoch = epoch_cache_latest(&b->disk.epochs);
	m->offset = b->disk.end;
	m->n = most;
}

/* fetch_answer.c */
static void
take_answer(World *w, const Message *m)
{
	Broker *b = &w->brokers[m->to];
	Disk *d = &b->disk;

	if (b->asked != m->id || b->leader != m->from || b->leader_epoch != m->leader_epoch)
		return;
	b->asked = 0;
	if (m->diverging)
	{
		TruncationInput in = {
			.leader_epoch = m->diverging_epoch, .leader_end = m->diverging_end, .log_end = d->end};

		epoch_cache_end(&d->epochs, m->diverging_epoch, d->end, &in.own_epoch, &in.own_end);
		log_cut(d, (int) truncation_point(&in));
		if (b->high_watermark > d->end)
			b->high_watermark = d->end;
		say(w, "broker %d is cut to %d by (%d, %d)", m->to, d->end, m->diverging_epoch, m->diverging_end);
		return;
	}
	if (m->offset != d->end)
		return;
	for (int i = 0; i < m->n; i++)
		log_add(d, m->entries[i]);
	if (m->high_watermark > b->high_watermark)
		b->high_watermark = m->high_watermark < d->end ? m->high_watermark : d->end;
	say(w, "broker %d gets %d records, ends at %d, high watermark %d", m->to, m->n, d->end,
		b->high_watermark);
}

/* ---- what PostgreSQL says ---- */

/* A claim of the incarnation that it has heard of: what it knew before it read anything of it. */
static void
remember(World *w, int id)
{
	Broker *b = &w->brokers[id];
	Claim *c = &b->known;

	/* It went back again before what was claimed had settled anything. */
	if (b->knows && b->claimed_for == b->process && c->partition_epoch > b->partition_epoch)
	{
		c->heard_epoch = b->leader_epoch > c->heard_epoch ? b->leader_epoch : c->heard_epoch;
		return;
	}
	b->claimed_for = b->process;
	*c = (Claim){.heard_epoch = b->leader_epoch,
				 .leader = b->leader,
				 .leader_epoch = b->leader_epoch,
				 .partition_epoch = b->partition_epoch};
	if (!b->knows)
	{
		c->leader = NOBODY;
		c->leader_epoch = c->partition_epoch = -1;
	}
	else if (b->lead.leader_epoch == b->leader_epoch && b->leader == id)
	{
		c->isr = ONE(id);
		for (int i = 0; i < w->n; i++)
			if (b->lead.followers[i].in_isr)
				c->isr |= ONE(i);
	}
	else
		c->isr = b->isr;
}

/* replica_duties.c */
static void
claim(World *w, int id)
{
	Broker *b = &w->brokers[id];

	if (!b->up || b->broker_epoch < 0 || !b->connected || b->incarnation <= 1 || b->claimed == b->incarnation)
		return;
	if (w->rules.claims_what_it_read)
	{
		/* When the image is complete. */
		if (!b->knows || b->image.incarnation != b->incarnation)
			return;
		remember(w, id);
	}
	b->claimed = b->incarnation;
	b->known.last_epoch = epoch_cache_latest(&b->disk.epochs);
	b->known.log_end = b->disk.synced;
	pg_claim(w, id, &b->known);
}

static void
hear_incarnation(World *w, int id)
{
	Broker *b = &w->brokers[id];

	if (b->incarnation == w->pg.incarnation)
		return;
	b->incarnation = w->pg.incarnation;
	remember(w, id);
}

static void
end_waits(Broker *b)
{
	memset(b->waits, 0, sizeof(b->waits));
}

static void
begin_lead(World *w, int id)
{
	Broker *b = &w->brokers[id];

	b->epoch_start = b->disk.end;
	if (b->lead.leader_epoch == b->leader_epoch)
		return; /* it had resigned, and its changes may still be under way */
	b->lead = (Lead){.leader_epoch = b->leader_epoch, .sent_epoch = -1};
	for (int i = 0; i < w->n; i++)
		b->lead.followers[i] = (Follower){.broker_epoch = -1,
										  .synced_end = -1,
										  .caught_up = w->now,
										  .last_fetch = -1,
										  .last_fetch_end = -1};
}

/* partition_table.c apply_partition() */
static void
apply_row(World *w, int id, const Row *row)
{
	Broker *b = &w->brokers[id];
	bool older = row->leader_epoch < b->leader_epoch ||
				 (row->leader_epoch == b->leader_epoch && row->partition_epoch < b->partition_epoch);
	bool leads = row->leader == id;

	if (b->knows && older && !w->rules.older_metadata_is_taken)
		return;
	if (b->leader != row->leader || b->leader_epoch != row->leader_epoch)
		b->asked = 0;
	if (!leads || row->leader_epoch != b->leader_epoch)
	{
		b->leading = false;
		end_waits(b);
	}
	b->knows = true;
	b->leader = row->leader;
	b->leader_epoch = row->leader_epoch;
	b->partition_epoch = row->partition_epoch;
	b->isr = row->isr;
	b->isr_size = set_size(row->isr);
	if (!leads)
		return;
	if (!b->leading)
	{
		begin_lead(w, id);
		b->leading = true;
		say(w, "broker %d leads in epoch %d @%d, ISR %x, log %d..%d", id, b->leader_epoch, b->partition_epoch,
			row->isr, b->high_watermark, b->disk.end);
	}
	if (w->rules.unchanged_row_settles && b->lead.unsettled)
		forget_wish(&b->lead);
	heard(&b->lead, row->partition_epoch);
	for (int i = 0; i < w->n; i++)
		set_in_isr(w, &b->lead.followers[i], i != id && (row->isr & ONE(i)) != 0);
	consider(w, id);
	advance(w, id);
}

static void
take_image(World *w, const Message *m)
{
	Broker *b = &w->brokers[m->to];

	if (b->broker_epoch < 0 || !b->connected)
		return; /* the sessions are closed */
	if (m->image.version >= b->image.version)
		b->image = m->image;
	apply_row(w, m->to, &m->image.row);
}

/* on_fenced(), partitions_resign() */
static void
resign(World *w, int id)
{
	Broker *b = &w->brokers[id];

	say(w, "broker %d has lost its epoch", id);
	b->last_epoch = b->broker_epoch;
	b->broker_epoch = -1;
	b->leading = false;
	end_waits(b);
	lose_reply(w, id);
	if (w->rules.resigning_forgets_change)
		b->lead.leader_epoch = -1;
}

static void
heartbeat(World *w, int id, bool superseded)
{
	Broker *b = &w->brokers[id];

	if (!b->up || b->broker_epoch < 0 || !b->connected)
		return;
	hear_incarnation(w, id);
	if (superseded || !pg_check_broker(w, id, b->broker_epoch))
		resign(w, id);
	else
		w->pg.brokers[id].disk_epoch = w->pg.brokers[id].epoch;
}

static void
register_broker(World *w, int id, bool reply_is_lost)
{
	Broker *b = &w->brokers[id];
	int64_t epoch;

	if (!b->up || b->stopping || (b->broker_epoch >= 0 && b->connected))
		return;
	epoch = pg_register(w, id);
	if (reply_is_lost)
		return;
	hear_incarnation(w, id);
	b->connected = true;
	if (b->broker_epoch >= 0 && epoch != b->broker_epoch)
		resign(w, id);
	else if (b->broker_epoch >= 0)
		return;
	b->broker_epoch = b->disk.broker_epoch = epoch;
	/* Under another epoch everything that it led has another leader epoch by now: the next image brings it. */
	if (b->knows && (epoch == b->last_epoch || w->rules.resigning_forgets_change))
	{
		Row known = b->image.row;

		apply_row(w, id, &known);
	}
}

/* ---- life ---- */

/*
 * What was not synced is gone, from some point on; `fate` 1: another disk, 2: a backup of this one.  A leader's disk and
 * PostgreSQL's last commits are not lost at once: then nobody knows who was in the ISR.
 */
static void
crash(World *w, int id, int kept, int fate)
{
	Broker *b = &w->brokers[id];
	Disk *d = &b->disk;

	if (!b->up)
		return;
	log_cut(d, d->synced + kept % (d->end - d->synced + 1));
	d->synced = d->end; /* it is synced before it counts (A9c) */
	d->high_watermark = b->high_watermark < d->end ? b->high_watermark : d->end;
	/* Broker epochs tell a backup only from what is younger by one that PostgreSQL knows the disk to carry. */
	if (fate == 2 && b->has_old && b->old.broker_epoch < w->pg.brokers[id].disk_epoch)
	{
		EpochCache cache = d->epochs;

		*d = b->old;
		d->epochs = cache;
		d->epochs.n = 0;
		for (int i = 0; i < d->end; i++)
			if (epoch_cache_latest(&d->epochs) < d->log[i].epoch)
				epoch_cache_assign(&d->epochs, d->log[i].epoch, i);
	}
	else if (fate == 1 && (!b->leading || (is_settled(w) && w->pg.identity == w->identity)))
	{
		/* What it had decided stays with PostgreSQL. */
		if (b->leading)
			memset(w->before, 0, sizeof(w->before));
		d->directory = ++w->directories;
		d->broker_epoch = d->begun = -1;
		d->end = d->synced = d->high_watermark = d->epochs.n = 0;
	}
	else if (fate == 3)
	{
		b->old = *d;
		b->has_old = true;
	}
	read_begun(d);
	b->up = b->leading = b->stopping = false;
	b->broker_epoch = -1;
	end_waits(b);
	say(w, "broker %d crashes, its log ends at %d%s", id, d->end,
		fate == 1   ? ", the disk is gone"
		: fate == 2 ? ", an old disk perhaps"
					: "");
}

static void
start(World *w, int id)
{
	Broker *b = &w->brokers[id];

	if (b->up)
		return;
	b->up = true;
	b->process = ++w->processes;
	b->broker_epoch = b->last_epoch = -1;
	b->connected = false;
	b->incarnation = b->claimed = 0;
	b->image = (Image){0};
	b->knows = false;
	b->leader = b->lead.leader_epoch = NOBODY;
	b->leader_epoch = b->partition_epoch = -1;
	b->isr_size = 0;
	b->asked = 0;
	b->high_watermark = b->disk.high_watermark;
	say(w, "broker %d starts as process %d", id, b->process);
}

#endif
