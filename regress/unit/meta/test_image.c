/*
 * test_image.c: rows into the metadata image: order, malformed rows, names made again, size.
 */
#include <stdlib.h>

#include "brokerd/meta/image.h"
#include "regress/unit/tap.h"

typedef struct Packed
{
	uint8_t bytes[4096];
	size_t len;
} Packed;

static void
put_int(Packed *p, int32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		p->bytes[p->len++] = (uint8_t) ((uint32_t) v >> shift);
}

static void
put_list(Packed *p, int n, const int32_t *ids)
{
	put_int(p, n);
	for (int i = 0; i < n; i++)
		put_int(p, ids[i]);
}

static const int32_t brokers[] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Replicas 1..n, all in sync. */
static void
put_partition(Packed *p, int32_t partition, int32_t leader, int32_t leader_epoch, int32_t epoch, int n)
{
	put_int(p, partition);
	put_int(p, leader);
	put_int(p, leader_epoch);
	put_int(p, epoch);
	put_list(p, n, brokers);
	put_list(p, n, brokers);
	put_list(p, 0, brokers);
	put_list(p, 0, brokers);
	put_list(p, 0, brokers);
}

static bool
apply(MetaImage *image, const char *name, uint8_t id, const Packed *p, const char *config, int64_t version)
{
	MetaTopicRow row = {.name = name,
						.name_len = (int32_t) strlen(name),
						.id = {{id}},
						.config_json = config,
						.version = version};
	Err err;

	row.partitions = p == NULL ? NULL : p->bytes;
	row.partitions_len = p == NULL ? 0 : p->len;
	return meta_image_apply_topic(image, &row, &err);
}

static bool
bury(MetaImage *image, const char *name, uint8_t id)
{
	MetaTopicRow row = {.name = name, .name_len = (int32_t) strlen(name), .id = {{id}}, .deleted = true};
	Err err;

	return meta_image_apply_topic(image, &row, &err);
}

static void
test_topics(void)
{
	MetaImage *image = meta_image_new();
	const MetaImageChanges *changes;
	MetaTopic *t;
	Packed p = {.len = 0}, q = {.len = 0};

	put_partition(&p, 0, 1, 5, 7, 3);
	put_partition(&p, 2, -1, 0, 0, 8);
	ok(apply(image, "orders", 1, &p,
			 "{\"retention.ms\": \"5\", \"cleanup.policy\": \"compact\", \"x\": null}", 10),
	   "a topic is taken");
	t = meta_image_topic(image, "orders", 6);
	ok(t != NULL && t == meta_image_topic_by_id(image, &(WUuid){{1}}), "found by name and by id");
	ok(meta_image_topic(image, "order", 5) == NULL && meta_image_topic(image, "", 0) == NULL,
	   "others are not");
	is_int(t->n_partitions, 3, "as many partitions as the highest says");
	ok(meta_topic_partition(t, 1) == NULL && meta_topic_partition(t, 3) == NULL &&
		   meta_topic_partition(t, -1) == NULL,
	   "a hole, and what is beyond, are none");
	ok(meta_partition_isr(meta_topic_partition(t, 0))[2] == 3 &&
		   meta_partition_in_isr(meta_topic_partition(t, 0), 3) &&
		   !meta_partition_has_replica(meta_topic_partition(t, 0), 4),
	   "short lists");
	ok(meta_partition_isr(meta_topic_partition(t, 2))[7] == 8 && meta_topic_partition(t, 2)->leader == -1,
	   "long lists");
	is_str(meta_topic_config(t, "retention.ms"), "5", "an override");
	ok(meta_topic_config(t, "x") == NULL && meta_topic_config(t, "retention") == NULL, "a null one is none");
	changes = meta_image_pending(image);
	ok(changes->n_topics == 1 && changes->topics[0].kind == META_TOPIC_NEW &&
		   changes->topics[0].n_partitions == 2 && changes->topics[0].configs_changed && !changes->complete,
	   "one change: new");
	meta_image_forget_changes(image);

	ok(apply(image, "orders", 1, &p, "{\"cleanup.policy\": \"compact\", \"retention.ms\": \"5\"}", 10),
	   "the same again");
	is_int(meta_image_pending(image)->n_topics, 0, "... is no change");
	put_partition(&q, 0, 2, 5, 6, 3);
	put_partition(&q, 2, 3, 1, 0, 2);
	ok(apply(image, "orders", 1, &q, "{}", 9), "an older and a newer partition (A2)");
	ok(meta_topic_partition(t, 0)->leader == 1, "... the older one is dropped");
	ok(meta_topic_partition(t, 2)->leader == 3 && meta_partition_replicas(meta_topic_partition(t, 2))[1] == 2,
	   "... a higher leader epoch counts whatever the partition epoch (PostgreSQL went back)");
	changes = meta_image_pending(image);
	ok(changes->n_topics == 1 && changes->topics[0].kind == META_TOPIC_CHANGED &&
		   changes->topics[0].n_partitions == 1 && changes->topics[0].partitions[0] == 2,
	   "... one partition changed");
	ok(changes->topics[0].configs_changed && meta_topic_config(t, "retention.ms") == NULL,
	   "... and the overrides went");
	meta_image_forget_changes(image);
	meta_image_set_version(image, 12);
	ok(meta_image_pending(image)->complete && meta_image_version(image) == 12, "complete up to a version");
	meta_image_free(image);
}

static void
test_malformed(void)
{
	MetaImage *image = meta_image_new();
	Packed p = {.len = 0}, bad = {.len = 0};
	bool refused = true;

	put_partition(&p, 0, 1, 1, 1, 2);
	put_partition(&p, 1, 1, 1, 1, 2);
	for (size_t len = 1; len < p.len; len++)
	{
		Packed cut = {.len = len};

		if (len == p.len / 2)
			continue; /* one whole partition */
		memcpy(cut.bytes, p.bytes, len);
		refused = refused && !apply(image, "t", 1, &cut, "{}", 1);
	}
	ok(refused, "a row cut at any byte is refused");
	put_partition(&bad, -1, 1, 1, 1, 1);
	ok(!apply(image, "t", 1, &bad, "{}", 1), "a negative partition");
	bad.len = 0;
	put_partition(&bad, 2000000000, 1, 1, 1, 1);
	ok(!apply(image, "t", 1, &bad, "{}", 1), "a partition that would take gigabytes");
	bad = p;
	bad.bytes[16] = 0x7f;
	ok(!apply(image, "t", 1, &bad, "{}", 1), "a list of two thousand million");
	ok(!apply(image, "t", 1, &p, "[1]", 1) && !apply(image, "t", 1, &p, "{\"a\": \"b\"", 1) &&
		   !apply(image, "t", 1, &p, "{\"a\" \"b\"}", 1),
	   "a configuration that is no object");
	ok(!apply(image, "", 1, &p, "{}", 1), "no name");
	is_int(meta_image_topic_count(image), 0, "nothing of them came in");
	is_int(meta_image_pending(image)->n_topics, 0, "... and nothing changed");
	meta_image_free(image);
}

static void
test_deleted(void)
{
	MetaImage *image = meta_image_new();
	const MetaImageChanges *changes;
	Packed p = {.len = 0};

	put_partition(&p, 0, 1, 1, 1, 1);
	apply(image, "t", 1, &p, "{}", 1);
	apply(image, "u", 3, &p, "{}", 1);
	/* Deleted and made again: the new one's row is read first. */
	apply(image, "t", 2, &p, "{}", 3);
	ok(meta_image_topic(image, "t", 1)->id.b[0] == 2, "a name made again is the newer topic's");
	bury(image, "t", 1);
	ok(meta_image_topic(image, "t", 1)->id.b[0] == 2, "... also when the tombstone of the older comes after");
	ok(meta_image_topic_by_id(image, &(WUuid){{1}}) == NULL && meta_image_is_deleted(image, &(WUuid){{1}}),
	   "the older is deleted");
	ok(!meta_image_is_deleted(image, &(WUuid){{9}}), "what was never heard of is not deleted (A7)");
	changes = meta_image_pending(image);
	ok(changes->n_topics == 4 && changes->topics[3].kind == META_TOPIC_DELETED &&
		   changes->topics[3].topic->id.b[0] == 1,
	   "the change names it for the last time");
	meta_image_forget_changes(image);
	bury(image, "never seen", 8);
	ok(meta_image_is_deleted(image, &(WUuid){{8}}) && meta_image_pending(image)->n_topics == 0,
	   "a tombstone of a topic that we did not have");

	meta_image_full_begin(image);
	apply(image, "u", 3, &p, "{}", 1);
	apply(image, "back", 8, &p, "{}", 1);
	meta_image_full_end(image);
	changes = meta_image_pending(image);
	ok(changes->n_topics == 2 && changes->topics[1].kind == META_TOPIC_GONE &&
		   changes->topics[1].topic->id.b[0] == 2,
	   "what a full read does not show is gone");
	ok(!meta_image_is_deleted(image, &(WUuid){{2}}) && meta_image_topic(image, "t", 1) == NULL,
	   "... not deleted");
	ok(!meta_image_is_deleted(image, &(WUuid){{8}}), "an older backup brings a deleted topic back");
	is_int(meta_image_partition_count(image), 2, "partitions are counted");
	meta_image_free(image);
}

static void
test_brokers(void)
{
	MetaImage *image = meta_image_new();
	MetaBrokerRow row = {.id = 5,
						 .epoch = 3,
						 .rack = "r",
						 .version = 4,
						 .endpoints_json = "[{\"host\": \"h\", \"name\": \"PLAINTEXT\", \"port\": 9092, "
										   "\"protocol\": \"PLAINTEXT\", \"more\": 1}]"};
	MetaBroker *held;
	Err err;
	int n;

	ok(meta_image_apply_broker(image, &row, &err), "a broker is taken");
	row.id = 2;
	ok(meta_image_apply_broker(image, &row, &err) && meta_image_brokers(image, &n)[0]->id == 2 && n == 2,
	   "sorted by id");
	held = meta_image_broker(image, 5);
	ok(held != NULL && meta_broker_endpoint(held, "PLAINTEXT")->port == 9092 &&
		   meta_broker_endpoint(held, "X") == NULL,
	   "its endpoint");
	held->user = &n;
	meta_image_forget_changes(image);
	row.id = 5;
	row.version = 3;
	row.state = META_BROKER_DEAD;
	ok(meta_image_apply_broker(image, &row, &err) && meta_broker_is_serving(held), "an older row is dropped");
	row.version = 5;
	ok(meta_image_apply_broker(image, &row, &err) && !meta_broker_is_serving(held) && held->user == &n,
	   "a newer one is taken, at the same address");
	ok(meta_image_pending(image)->brokers_changed, "... as a change");
	row.endpoints_json = "[{\"name\": \"x\"}]";
	row.version = 6;
	ok(!meta_image_apply_broker(image, &row, &err) && held->state == META_BROKER_DEAD,
	   "malformed endpoints: %s", err.text);
	meta_image_free(image);
}

static void
test_configs(void)
{
	MetaImage *image = meta_image_new();

	meta_image_configs_begin(image);
	meta_image_configs_add(image, -1, "b", "1");
	meta_image_configs_add(image, -1, "a", "2");
	meta_image_configs_add(image, 3, "a", "3");
	meta_image_configs_end(image);
	is_str(meta_image_cluster_config(image, "a"), "2", "a config of the cluster");
	is_str(meta_image_broker_config(image, 3, "a"), "3", "... of a broker");
	ok(meta_image_broker_config(image, 4, "a") == NULL && meta_image_pending(image)->configs_changed,
	   "... of no other; a change");
	meta_image_forget_changes(image);
	meta_image_configs_begin(image);
	meta_image_configs_add(image, 3, "a", "3");
	meta_image_configs_add(image, -1, "a", "2");
	meta_image_configs_add(image, -1, "b", "1");
	meta_image_configs_end(image);
	ok(!meta_image_pending(image)->configs_changed, "the same in another order is no change");
	meta_image_configs_begin(image);
	meta_image_configs_end(image);
	ok(meta_image_pending(image)->configs_changed && meta_image_cluster_config(image, "a") == NULL,
	   "all of them reset");
	meta_image_free(image);
}

static void
test_size(void)
{
	MetaImage *image = meta_image_new();
	Packed p = {.len = 0};
	size_t bytes;

	for (int i = 0; i < 20; i++)
		put_partition(&p, i, 1, 1, 1, 3);
	for (int i = 0; i < 5000; i++)
	{
		char name[16];
		MetaTopicRow row = {.name = name,
							.id = {{(uint8_t) i, (uint8_t) (i >> 8), 1}},
							.partitions = p.bytes,
							.partitions_len = p.len};
		Err err;

		row.name_len = snprintf(name, sizeof(name), "topic-%d", i);
		if (!meta_image_apply_topic(image, &row, &err))
			break;
		meta_image_forget_changes(image);
	}
	is_int(meta_image_partition_count(image), 100000, "100,000 partitions");
	bytes = meta_image_memory(image);
	ok(bytes < 10 * 1024 * 1024, "... in less than 10 MiB: %.1f", (double) bytes / 1024 / 1024);
	meta_image_free(image);
}

/* Each list is its own, where they stand in the partition and where they do not fit. */
static void
test_lists(void)
{
	MetaImage *image = meta_image_new();
	Packed p = {0};
	const MetaPartition *few, *many;

	for (int32_t i = 0; i < 2; i++)
	{
		put_int(&p, i);
		put_int(&p, 1);
		put_int(&p, 0);
		put_int(&p, 0);
		put_list(&p, i == 0 ? 2 : 8, brokers);
		put_list(&p, 1, brokers);
		put_list(&p, 1, brokers + 2);
		put_list(&p, 1, brokers + 3);
		put_list(&p, 1, brokers + 4);
	}
	ok(apply(image, "t", 1, &p, "{}", 1), "partitions with all five lists");
	few = meta_topic_partition(meta_image_topic(image, "t", 1), 0);
	many = meta_topic_partition(meta_image_topic(image, "t", 1), 1);
	ok(few->n_replicas == 2 && many->n_replicas == 8 && meta_partition_replicas(many)[7] == 8, "replicas");
	ok(meta_partition_isr(few)[0] == 1 && meta_partition_isr(many)[0] == 1, "ISR");
	ok(meta_partition_adding(few)[0] == 3 && meta_partition_adding(many)[0] == 3, "adding");
	ok(meta_partition_removing(few)[0] == 4 && meta_partition_removing(many)[0] == 4, "removing");
	ok(few->n_elr == 1 && meta_partition_elr(few)[0] == 5 && meta_partition_elr(many)[0] == 5, "eligible");
	p.len -= 4;
	ok(!apply(image, "u", 2, &p, "{}", 2), "one that is cut off is refused");
	meta_image_free(image);
}

int
main(void)
{
	test_topics();
	test_malformed();
	test_deleted();
	test_brokers();
	test_configs();
	test_size();
	test_lists();
	return tap_done();
}
