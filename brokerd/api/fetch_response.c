/* fetch_response.c: the answer to a Fetch, from what the look at its partitions found. */
#include "brokerd/api/fetch_op.h"

static void
on_piece_sent(NetPiece *piece)
{
	log_slice_release(piece->owner);
}

void
fetch_fill_records(LogSlice *slice, NetPiece *piece, WRecords *records)
{
	*records = (WRecords){(const uint8_t *) "", 0, NULL};
	if (slice->len <= 0)
		return;
	*piece = (NetPiece){.fd = slice->fd,
						.pos = slice->pos,
						.data = slice->data,
						.len = (size_t) slice->len,
						.release = on_piece_sent,
						.owner = slice};
	*records = (WRecords){NULL, slice->len, piece};
}

static void
fill_aborted(FetchPart *part, FetchResponseResponsesPartitions *out, Partition *p)
{
	ApiCall *call = part->op->call;
	int n;
	LogAbortedTxn *found;

	out->n_aborted_transactions = 0;
	if (part->slice.len == 0 || p == NULL || p->log == NULL)
		return;
	n = log_aborted_txns(p->log, part->slice.first_offset, part->slice.next_offset, NULL, 0);
	if (n <= 0)
		return;
	found = api_alloc(call, sizeof(*found) * (size_t) n);
	n = log_aborted_txns(p->log, part->slice.first_offset, part->slice.next_offset, found, n);
	out->aborted_transactions = API_NEW(call, FetchResponseResponsesPartitionsAbortedTransactions, n);
	out->n_aborted_transactions = n;
	for (int i = 0; i < n; i++)
	{
		out->aborted_transactions[i].producer_id = found[i].producer_id;
		out->aborted_transactions[i].first_offset = found[i].first_offset;
	}
}

static void
fill_part(FetchPart *part, FetchResponseResponsesPartitions *out, LeaderHints *hints)
{
	ApiCall *call = part->op->call;

	out->partition_index = part->partition;
	out->error_code = part->error;
	out->high_watermark = part->high_watermark;
	out->last_stable_offset = part->last_stable_offset;
	out->log_start_offset = part->log_start_offset;
	out->preferred_read_replica = part->preferred;
	out->n_aborted_transactions = -1;
	fetch_fill_records(&part->slice, &part->piece, &out->records);
	if (part->divergence.diverged)
	{
		out->diverging_epoch.epoch = part->divergence.epoch;
		out->diverging_epoch.end_offset = part->divergence.end;
	}
	if (part->leader_epoch >= 0 && call->version >= 16)
	{
		if (common_add_hint(call, hints, part->leader) || part->error != KERR_NOT_LEADER_OR_FOLLOWER)
		{
			out->current_leader.leader_id = part->leader;
			out->current_leader.leader_epoch = part->leader_epoch;
		}
	}
	if (part->op->request->isolation_level == 1 && part->error == KERR_NONE && part->preferred < 0)
	{
		int16_t error;
		PartitionTopic *topic =
			common_find_topic(call, part->topic, &part->topic_id, call->version >= 13, &error);

		fill_aborted(part, out,
					 topic != NULL && part->partition < topic->n_partitions
						 ? topic->partitions[part->partition]
						 : NULL);
	}
}

/* In an incremental response only what the client does not know; the session remembers what it is told. */
static bool
must_tell(FetchOp *op, FetchSession *session, const FetchPart *part)
{
	FetchSessionPart *sp;
	bool changed;

	if (session == NULL)
		return true;
	sp = fetch_session_part(session, part->topic, &part->topic_id, part->partition);
	if (sp == NULL)
		return true;
	changed = !op->incremental || part->error != KERR_NONE || part->divergence.diverged ||
			  part->preferred >= 0 || part->slice.len > 0 ||
			  sp->told_high_watermark != part->high_watermark || sp->told_log_start != part->log_start_offset;
	/* After an error everything is told again. */
	sp->told_high_watermark = part->error == KERR_NONE ? part->high_watermark : -1;
	sp->told_log_start = part->error == KERR_NONE ? part->log_start_offset : -1;
	if (part->slice.len > 0)
		fetch_session_rotate(session, sp);
	return changed;
}

static void
fill_hints(ApiCall *call, const LeaderHints *hints, FetchResponse *response)
{
	if (hints->n == 0)
		return;
	response->node_endpoints = API_NEW(call, FetchResponseNodeEndpoints, hints->n);
	for (int32_t i = 0; i < hints->n; i++)
	{
		const MetaEndpoint *end = common_endpoint(call, hints->ids[i]);
		const MetaBroker *broker = meta_image_broker(meta_image(call->broker->meta), hints->ids[i]);

		if (end != NULL)
			response->node_endpoints[response->n_node_endpoints++] =
				(FetchResponseNodeEndpoints){.node_id = hints->ids[i],
											 .host = wstr(end->host),
											 .port = end->port,
											 .rack = wstr(broker->rack)};
	}
}

static bool
same_topic(const FetchPart *a, const FetchPart *b)
{
	return wuuid_eq(&a->topic_id, &b->topic_id) && wstr_eq(a->topic, b->topic);
}

void
fetch_answer(FetchOp *op)
{
	ApiCall *call = op->call;
	FetchResponse response;
	LeaderHints hints = {0};
	FetchSession *session = NULL;
	FetchResponseResponsesPartitions *outs = API_NEW(call, FetchResponseResponsesPartitions, op->n_parts);
	FetchResponseResponses *topic = NULL;
	const FetchPart *last = NULL;
	int n = 0;

	WIRE_INIT(FetchResponse, &response);
	response.session_id = op->session_id;
	if (op->session_id != 0)
		session = fetch_session_find(call->broker->fetch_sessions, op->session_id);
	response.responses = API_NEW(call, FetchResponseResponses, op->n_parts);
	response.n_responses = 0;
	for (int i = 0; i < op->n_parts; i++)
	{
		FetchPart *part = &op->parts[i];

		if (!must_tell(op, session, part))
			continue;
		if (last == NULL || !same_topic(last, part))
		{
			topic = &response.responses[response.n_responses++];
			topic->topic = part->topic;
			topic->topic_id = part->topic_id;
			topic->partitions = &outs[n];
			topic->n_partitions = 0;
		}
		last = part;
		fill_part(part, &outs[n++], &hints);
		topic->n_partitions++;
	}
	fill_hints(call, &hints, &response);
	api_reply(call, &response);
}

void
fetch_answer_error(ApiCall *call, int16_t error)
{
	FetchResponse response;

	WIRE_INIT(FetchResponse, &response);
	response.error_code = error;
	response.n_responses = 0;
	api_reply(call, &response);
}
