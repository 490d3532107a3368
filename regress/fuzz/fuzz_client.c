/*
 * fuzz_client.c: libpgbroker before a broker that lies.  socket() gives one end of a pair, the other one is ours: each
 * request of the client is answered as the input says, byte after byte:
 *
 *     0..3    what a sound broker would answer
 *     4       the same, with some of its bytes changed: count, then (place, new byte) each
 *     5       the same, cut off: how much is left
 *     6       bytes of the input: how many, then they
 *     7       an answer to another question
 *     8       the connection ends
 *     9..     as 0, with this as its error code wherever it has one
 *
 * The first byte says who asks: a producer, a consumer of partitions, a member of a group (which leads it).  The clock
 * jumps, so that nothing is waited for.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/consumer.h"
#include "client/producer.h"
#include "wire/bytes.h"

#define MOST_PEERS 256
#define TURNS      40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const uint8_t *input, *input_end;
static int peers[MOST_PEERS];
static int n_peers;
static int64_t fake_ms;

/* ---- what the client thinks is the system ---- */

int
socket(int domain, int type, int protocol)
{
	int pair[2];

	(void) domain;
	(void) type;
	(void) protocol;
	if (n_peers == MOST_PEERS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
		return -1;
	peers[n_peers++] = pair[1];
	return pair[0];
}

int
connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void) fd;
	(void) addr;
	(void) len;
	return 0;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	(void) node;
	(void) service;
	(void) hints;
	*res = calloc(1, sizeof(**res));
	return *res == NULL ? EAI_MEMORY : 0;
}

void
freeaddrinfo(struct addrinfo *res)
{
	free(res);
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int) syscall(SYS_clock_gettime, id, ts);
	fake_ms += 3;
	*ts = (struct timespec){fake_ms / 1000, fake_ms % 1000 * 1000000};
	return 0;
}

ssize_t
getrandom(void *buf, size_t len, unsigned flags)
{
	(void) flags;
	memset(buf, 7, len);
	return (ssize_t) len;
}

static void serve(void);

/* Nothing comes from outside: who would wait gets the answers that are due, or the time is over. */
int
epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	int n;

	serve();
	n = (int) syscall(SYS_epoll_pwait, epfd, events, most, 0, NULL, 8);
	if (n == 0)
		fake_ms += timeout > 0 ? timeout : 0;
	return n;
}

/* ---- a sound broker ---- */

static uint8_t
next_byte(void)
{
	return input < input_end ? *input++ : 0;
}

static void
answer_metadata(MetadataResponse *r, Arena *a, int16_t code)
{
	static int32_t one = 1;

	r->brokers = WIRE_NEW(MetadataResponseBrokers, a, 1);
	r->n_brokers = 1;
	r->brokers[0].node_id = 1;
	r->brokers[0].host = WSTR_LIT("localhost");
	r->brokers[0].port = 9092;
	r->topics = WIRE_NEW(MetadataResponseTopics, a, 1);
	r->n_topics = 1;
	r->topics[0].name = WSTR_LIT("t");
	r->topics[0].error_code = code;
	r->topics[0].partitions = WIRE_NEW(MetadataResponseTopicsPartitions, a, 2);
	r->topics[0].n_partitions = code == 0 ? 2 : 0;
	for (int i = 0; i < 2; i++)
	{
		r->topics[0].partitions[i].partition_index = i;
		r->topics[0].partitions[i].leader_id = 1;
		r->topics[0].partitions[i].leader_epoch = 3;
		r->topics[0].partitions[i].replica_nodes = r->topics[0].partitions[i].isr_nodes = &one;
		r->topics[0].partitions[i].n_replica_nodes = r->topics[0].partitions[i].n_isr_nodes = 1;
	}
}

static void
answer_fetch(FetchResponse *r, Arena *a, WireWriter *records, int16_t code)
{
	BatchBuilder bb;
	FetchResponseResponsesPartitions *p;

	for (int i = 0; i < 2; i++)
	{
		batch_begin(&bb, records, i == 0 ? next_byte() % 5 : COMPRESS_NONE);
		bb.attributes = i == 0 ? 0 : BATCH_TRANSACTIONAL;
		bb.producer_id = i == 0 ? -1 : 7;
		for (int k = 0; k < 3; k++)
			batch_add(&bb, 1000 + k, (WBytes){(const uint8_t *) "k", 1},
					  (WBytes){(const uint8_t *) "value", 5}, NULL, 0);
		if (batch_end(&bb) != 0)
			abort();
	}
	r->responses = WIRE_NEW(FetchResponseResponses, a, 1);
	r->n_responses = 1;
	r->responses[0].topic = WSTR_LIT("t");
	r->responses[0].partitions = p = WIRE_NEW(FetchResponseResponsesPartitions, a, 1);
	r->responses[0].n_partitions = 1;
	p->partition_index = next_byte() % 3;
	p->error_code = code;
	p->high_watermark = p->last_stable_offset = 100;
	p->aborted_transactions = WIRE_NEW(FetchResponseResponsesPartitionsAbortedTransactions, a, 1);
	p->n_aborted_transactions = 1;
	p->aborted_transactions[0].producer_id = 7;
	p->records = (WRecords){records->buf, (int32_t) records->len, NULL};
}

static void
answer_join(JoinGroupResponse *r, Arena *a, int16_t code)
{
	static const uint8_t nothing[] = {0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff};

	r->error_code = code;
	r->generation_id = 5;
	r->protocol_name = next_byte() % 2 == 0 ? WSTR_LIT("sticky") : WSTR_LIT("cooperative-sticky");
	r->member_id = r->leader = WSTR_LIT("me");
	r->members = WIRE_NEW(JoinGroupResponseMembers, a, 1);
	r->n_members = 1;
	r->members[0].member_id = r->member_id;
	r->members[0].metadata = (WBytes){nothing, sizeof(nothing)};
}

static void
answer_sync(SyncGroupResponse *r, int16_t code)
{
	static const uint8_t both[] = {0, 0, 0, 0, 0, 1, 0, 1, 't',  0,    0,    0,   2,
								   0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff};

	r->error_code = code;
	r->assignment = (WBytes){both, sizeof(both)};
}

static void
answer_offsets(int16_t key, void *resp, Arena *a, int16_t code)
{
	if (key == API_LIST_OFFSETS)
	{
		ListOffsetsResponse *r = resp;

		r->topics = WIRE_NEW(ListOffsetsResponseTopics, a, 1);
		r->n_topics = 1;
		r->topics[0].name = WSTR_LIT("t");
		r->topics[0].partitions = WIRE_NEW(ListOffsetsResponseTopicsPartitions, a, 2);
		r->topics[0].n_partitions = 2;
		for (int i = 0; i < 2; i++)
			r->topics[0].partitions[i] = (ListOffsetsResponseTopicsPartitions){i, code, NULL, 0, 0, 0, 3};
	}
	else
	{
		OffsetFetchResponse *r = resp;

		r->topics = WIRE_NEW(OffsetFetchResponseTopics, a, 1);
		r->n_topics = 1;
		r->topics[0].name = WSTR_LIT("t");
		r->topics[0].partitions = WIRE_NEW(OffsetFetchResponseTopicsPartitions, a, 2);
		r->topics[0].n_partitions = 2;
		for (int i = 0; i < 2; i++)
		{
			r->topics[0].partitions[i].partition_index = i;
			r->topics[0].partitions[i].error_code = code;
			r->topics[0].partitions[i].committed_offset = i - 1;
		}
	}
}

static void
answer_produce(ProduceResponse *r, Arena *a, int16_t code)
{
	r->responses = WIRE_NEW(ProduceResponseResponses, a, 1);
	r->n_responses = 1;
	r->responses[0].name = WSTR_LIT("t");
	r->responses[0].partition_responses = WIRE_NEW(ProduceResponseResponsesPartitionResponses, a, 2);
	r->responses[0].n_partition_responses = 2;
	for (int i = 0; i < 2; i++)
	{
		r->responses[0].partition_responses[i].index = i;
		r->responses[0].partition_responses[i].error_code = code;
	}
}

static void
answer_versions(ApiVersionsResponse *r, Arena *a)
{
	r->api_keys = WIRE_NEW(ApiVersionsResponseApiKeys, a, wire_api_count());
	for (; r->n_api_keys < wire_api_count(); r->n_api_keys++)
	{
		const WireApi *api = wire_api_at(r->n_api_keys);

		r->api_keys[r->n_api_keys] = (ApiVersionsResponseApiKeys){api->key, api->known_min, api->known_max};
	}
}

static void
fill(const WireApi *api, void *resp, Arena *a, WireWriter *records, int16_t code)
{
	switch (api->key)
	{
		case API_API_VERSIONS:
			answer_versions(resp, a);
			break;
		case API_METADATA:
			answer_metadata(resp, a, code);
			break;
		case API_FETCH:
			answer_fetch(resp, a, records, code);
			break;
		case API_JOIN_GROUP:
			answer_join(resp, a, code);
			break;
		case API_SYNC_GROUP:
			answer_sync(resp, code);
			break;
		case API_LIST_OFFSETS:
		case API_OFFSET_FETCH:
			answer_offsets(api->key, resp, a, code);
			break;
		case API_PRODUCE:
			answer_produce(resp, a, code);
			break;
		case API_HEARTBEAT:
			((HeartbeatResponse *) resp)->error_code = code;
			break;
		case API_INIT_PRODUCER_ID:
			((InitProducerIdResponse *) resp)->error_code = code;
			((InitProducerIdResponse *) resp)->producer_id = 4711;
			break;
		case API_FIND_COORDINATOR:
			((FindCoordinatorResponse *) resp)->error_code = code;
			((FindCoordinatorResponse *) resp)->node_id = 1;
			break;
		default:
			break;
	}
}

/* ---- a broker that lies ---- */

static void
answer(int fd, const uint8_t *frame, size_t len)
{
	int how = next_byte();
	int16_t code = how >= 9 ? (int16_t) (how - 9) : 0;
	WireRequestHeader h;
	WireReader body;
	WireWriter w, records;
	uint64_t resp[64];
	size_t start;
	Arena a;

	if (wire_request_header_decode(frame, len, &h, &body) == WIRE_HEADER_MALFORMED || h.api == NULL)
		abort();
	if (h.key == API_PRODUCE && len > 20 && get_be16(body.p + (h.version >= 9 ? 1 : 2)) == 0)
		return; /* acks=0 */
	wire_writer_init(&w);
	wire_writer_init(&records);
	arena_init(&a, 4096);
	if (h.api->response->size > sizeof(resp))
		abort();
	wire_init(h.api->response, resp);
	fill(h.api, resp, &a, &records, code);
	start = wire_response_begin(&w, h.api, h.version, how == 7 ? h.correlation_id + 1 : h.correlation_id);
	if (how == 6)
		for (int n = next_byte(); n > 0; n--)
			wire_put_bytes(&w, &(uint8_t){next_byte()}, 1);
	else if (wire_encode(h.api->response, h.version, &w, resp) != 0)
		abort();
	wire_frame_end(&w, start);
	if (how == 4)
		for (int n = 1 + next_byte() % 8; n > 0; n--)
		{
			size_t at = (size_t) next_byte() + (size_t) next_byte() * 8;

			if (at < w.len)
				w.buf[at] = next_byte();
		}
	if (how == 5)
		w.len = next_byte() < w.len ? next_byte() % w.len : w.len;
	if (how == 8 || send(fd, w.buf, w.len, MSG_NOSIGNAL) < 0)
		(void) shutdown(fd, SHUT_RDWR);
	wire_writer_free(&w);
	wire_writer_free(&records);
	arena_free(&a);
}

static void
serve(void)
{
	static uint8_t buf[1 << 16];

	for (int i = 0; i < n_peers; i++)
	{
		ssize_t n = read(peers[i], buf, sizeof(buf));

		for (ssize_t at = 0; at + 4 <= n;)
		{
			size_t len = get_be32(buf + at);

			if (len > (size_t) (n - at - 4))
				break;
			answer(peers[i], buf + at + 4, len);
			at += (ssize_t) len + 4;
		}
	}
}

static pgb_conf *
configure(uint8_t how)
{
	static const char *const settings[][2] = {{"bootstrap.servers", "localhost:9092"},
											  {"group.id", "g"},
											  {"auto.offset.reset", "earliest"},
											  {"retry.backoff.ms", "1"},
											  {"retry.backoff.max.ms", "20"},
											  {"linger.ms", "0"},
											  {"auto.commit.interval.ms", "20"},
											  {"heartbeat.interval.ms", "50"},
											  {"request.timeout.ms", "500"},
											  {"delivery.timeout.ms", "400"},
											  {"metadata.wait.ms", "200"},
											  {"receive.message.max.bytes", "1000000"},
											  {"max.poll.interval.ms", "300"}};
	pgb_conf *conf = pgb_conf_new();

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (pgb_conf_set(conf, settings[i][0], settings[i][1], NULL) != 0)
			abort();
	(void) pgb_conf_set(conf, "partition.assignment.strategy",
						(how & 16) != 0 ? "cooperative-sticky" : "sticky,range", NULL);
	(void) pgb_conf_set(conf, "isolation.level", (how & 32) != 0 ? "read_committed" : "read_uncommitted",
						NULL);
	(void) pgb_conf_set(conf, "acks", (how & 64) != 0 ? "1" : "all", NULL);
	(void) pgb_conf_set(conf, "compression.type", (how & 128) != 0 ? "lz4" : "none", NULL);
	return conf;
}

static int reported;

static void
on_delivery(const pgb_report *r, void *arg)
{
	(void) r;
	(void) arg;
	reported++;
}

static void
run_producer(const pgb_conf *conf)
{
	pgb_producer *p = pgb_producer_new(conf, NULL);
	int taken = 0;

	reported = 0;
	for (int i = 0; i < TURNS; i++)
	{
		pgb_message m = PGB_MESSAGE("t");

		m.value = pgb_text("some value");
		m.partition = i % 3 - 1;
		taken += i < 20 && pgb_produce(p, &m, NULL) == 0;
		(void) pgb_producer_work(p, 0);
	}
	(void) pgb_producer_close(p, 10);
	/* Whatever the broker does, each message has exactly one report. */
	if (reported != taken)
		abort();
}

static void
run_consumer(const pgb_conf *conf, bool group)
{
	pgb_consumer *c = pgb_consumer_new(conf, NULL);
	const char *topic = "t";
	pgb_place places[] = {{"t", 0, PGB_EARLIEST, 0}, {"t", 1, PGB_COMMITTED, 0}};
	pgb_record records[8];
	pgb_header h;
	volatile uint8_t sum = 0;

	if ((group ? pgb_subscribe(c, &topic, 1, NULL) : pgb_assign(c, places, 2, NULL)) != 0)
		abort();
	for (int i = 0; i < TURNS; i++)
	{
		int n = pgb_poll(c, records, 8, i % 4 * 20, NULL);

		for (int k = 0; k < n; k++)
		{
			for (size_t b = 0; b < records[k].value.len; b++)
				sum = (uint8_t) (sum + ((const uint8_t *) records[k].value.data)[b]);
			for (const void *at = NULL; pgb_header_next(&records[k], &at, &h);)
				sum = (uint8_t) (sum + h.name.len);
		}
	}
	pgb_consumer_close(c, 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	pgb_conf *conf;
	uint8_t who;

	input = data;
	input_end = data + len;
	n_peers = 0;
	fake_ms = 1000000;
	who = next_byte();
	conf = configure(who);
	pgb_conf_on_delivery(conf, on_delivery, NULL);
	if (who % 3 == 0)
		run_producer(conf);
	else
		run_consumer(conf, who % 3 == 1);
	pgb_conf_free(conf);
	for (int i = 0; i < n_peers; i++)
		(void) close(peers[i]);
	return 0;
}
