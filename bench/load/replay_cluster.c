/* replay_cluster.c: see replay_cluster.h. */
#include "bench/load/replay_cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/load/dial.h"
#include "bench/load/options.h"
#include "wire/bytes.h"
#include "wire/messages.h"

enum
{
	FRAME_MAX = 256 << 20,
	METADATA_VERSION = 5,
	LIST_OFFSETS_VERSION = 2,
	HIGH_WATERMARK = -1 /* ListOffsets asks for times; this one is the end */
};

static void
send_whole(int fd, const uint8_t *p, size_t n)
{
	while (n > 0)
	{
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0)
			die("the connection to the broker broke: %s", strerror(errno));
		p += sent;
		n -= (size_t) sent;
	}
}

static void
receive_whole(int fd, uint8_t *p, size_t n)
{
	while (n > 0)
	{
		ssize_t got = recv(fd, p, n, 0);

		if (got <= 0)
			die("the connection to the broker broke: %s", got == 0 ? "it was closed" : strerror(errno));
		p += got;
		n -= (size_t) got;
	}
}

void
cluster_ask(int fd, int16_t key, int16_t version, const void *request, void *response, Arena *arena,
			uint8_t **frame)
{
	const WireApi *api = wire_api(key);
	const char *wrong;
	uint8_t size[4];
	WireWriter w;
	uint32_t len;

	wire_writer_init(&w);
	wire_request_put(&w, api, version, 0, WSTR_LIT("replay"), request);
	if (w.failed)
		die("a %s request cannot be made", api->name);
	send_whole(fd, w.buf, w.len);
	wire_writer_free(&w);
	receive_whole(fd, size, sizeof(size));
	len = get_be32(size);
	*frame = len > FRAME_MAX ? NULL : malloc(len);
	if (*frame == NULL)
		die("what answers %s is no broker: an answer of %u bytes", api->name, len);
	receive_whole(fd, *frame, len);
	wrong = wire_response_decode(*frame, len, api, version, 0, arena, response);
	if (wrong != NULL)
		die("the answer to %s cannot be read: %s", api->name, wrong);
}

static void
note_leader(Cluster *c, const MetadataResponse *md, const MetadataResponseTopicsPartitions *p,
			const char *topic)
{
	ClusterPartition *at;

	if (p->partition_index < 0 || p->partition_index >= c->n)
		die("topic %s: a partition %d of %d", topic, p->partition_index, c->n);
	at = &c->partitions[p->partition_index];
	for (int32_t i = 0; i < md->n_brokers; i++)
		if (md->brokers[i].node_id == p->leader_id)
		{
			snprintf(at->host, sizeof(at->host), "%.*s", md->brokers[i].host.len, md->brokers[i].host.s);
			at->port = md->brokers[i].port;
			at->leader = p->leader_id;
		}
	if (at->host[0] == '\0')
		die("partition %d of topic %s has no leader", p->partition_index, topic);
}

void
cluster_load(Cluster *c, const char *bootstrap, const char *topic)
{
	MetadataRequestTopics wanted = {.name = wstr(topic)};
	MetadataRequest request;
	MetadataResponse md;
	uint8_t *frame;
	Arena arena;
	int fd = dial_any(bootstrap);

	arena_init(&arena, 4096);
	WIRE_INIT(MetadataRequest, &request);
	request.topics = &wanted;
	request.n_topics = 1;
	request.allow_auto_topic_creation = false;
	cluster_ask(fd, API_METADATA, METADATA_VERSION, &request, &md, &arena, &frame);
	dial_close(fd);
	if (md.n_topics != 1 || md.topics[0].error_code != 0 || md.topics[0].n_partitions == 0)
		die("topic %s is not there; `load create-topic` makes it", topic);
	c->n = md.topics[0].n_partitions;
	c->partitions = calloc((size_t) c->n, sizeof(*c->partitions));
	if (c->partitions == NULL)
		die("no memory for %d partitions", c->n);
	for (int32_t i = 0; i < c->n; i++)
		note_leader(c, &md, &md.topics[0].partitions[i], topic);
	free(frame);
	arena_free(&arena);
}

/* One question a partition: a benchmark's topics have few. */
static int64_t
ask_end(const ClusterPartition *p, const char *topic, int32_t index)
{
	ListOffsetsRequestTopicsPartitions partition = {.partition_index = index, .timestamp = HIGH_WATERMARK};
	ListOffsetsRequestTopics named = {.name = wstr(topic), .partitions = &partition, .n_partitions = 1};
	ListOffsetsRequest request;
	ListOffsetsResponse response;
	int64_t end = -1;
	uint8_t *frame;
	Arena arena;
	int fd = dial_host(p->host, p->port);

	arena_init(&arena, 1024);
	WIRE_INIT(ListOffsetsRequest, &request);
	request.replica_id = -1;
	request.topics = &named;
	request.n_topics = 1;
	cluster_ask(fd, API_LIST_OFFSETS, LIST_OFFSETS_VERSION, &request, &response, &arena, &frame);
	dial_close(fd);
	if (response.n_topics == 1 && response.topics[0].n_partitions == 1 &&
		response.topics[0].partitions[0].error_code == 0)
		end = response.topics[0].partitions[0].offset;
	free(frame);
	arena_free(&arena);
	if (end < 0)
		die("the end of partition %d of topic %s is not known", index, topic);
	return end;
}

void
cluster_ends(Cluster *c, const char *topic)
{
	for (int i = 0; i < c->n; i++)
		c->partitions[i].end = ask_end(&c->partitions[i], topic, i);
}

void
cluster_free(Cluster *c)
{
	free(c->partitions);
}
