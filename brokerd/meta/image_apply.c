/*
 * image_apply.c: rows of PostgreSQL into the metadata image, and the list of what changed.
 */
#include "brokerd/meta/image_internal.h"

#include <stdlib.h>
#include <string.h>

#include "brokerd/base/clock.h"
#include "brokerd/meta/json.h"

/* ---- the change list ---- */

static MetaTopicChange *
add_change(MetaImage *image, MetaTopicChangeKind kind, MetaTopic *topic)
{
	if (image->n_pending == image->pending_size)
	{
		image->pending_size = image->pending_size == 0 ? 16 : image->pending_size * 2;
		image->pending = meta_realloc(image->pending, (size_t) image->pending_size * sizeof(*image->pending));
	}
	image->pending[image->n_pending] = (MetaTopicChange){.kind = kind, .topic = topic};
	image->changes++;
	return &image->pending[image->n_pending++];
}

const MetaImageChanges *
meta_image_pending(MetaImage *image)
{
	image->view.topics = image->pending;
	image->view.n_topics = image->n_pending;
	return &image->view;
}

void
meta_image_forget_changes(MetaImage *image)
{
	for (int i = 0; i < image->n_pending; i++)
	{
		free((void *) image->pending[i].partitions);
		if (image->pending[i].kind == META_TOPIC_DELETED || image->pending[i].kind == META_TOPIC_GONE)
			meta_topic_free(image, image->pending[i].topic);
	}
	image->n_pending = 0;
	image->view = (MetaImageChanges){0};
}

/* ---- configs ---- */

static int
compare_configs(const void *a, const void *b)
{
	return strcmp(((const MetaConfig *) a)->key, ((const MetaConfig *) b)->key);
}

/* {"key":"value",...} sorted by key; a null value is left out. */
static bool
parse_configs(const char *json, MetaConfig **out, int *n, Err *err)
{
	MetaJson j = {.p = json};
	char *key;

	*out = NULL;
	*n = 0;
	if (json == NULL || !meta_json_begin(&j, '{'))
		return json == NULL ? true
							: err_set(err, 0, 0, "a topic's configuration is no JSON object: %.100s", json);
	while ((key = meta_json_key(&j)) != NULL)
	{
		char *value = meta_json_scalar(&j);

		if (value == NULL)
		{
			free(key);
			continue;
		}
		*out = meta_realloc(*out, (size_t) (*n + 1) * sizeof(**out));
		(*out)[(*n)++] = (MetaConfig){key, value};
	}
	if (!meta_json_end(&j))
	{
		meta_configs_free(*out, *n);
		*out = NULL;
		*n = 0;
		return err_set(err, 0, 0, "a topic's configuration is no JSON object: %.100s", json);
	}
	if (*n > 0)
		qsort(*out, (size_t) *n, sizeof(**out), compare_configs);
	return true;
}

static bool
configs_equal(const MetaConfig *a, int na, const MetaConfig *b, int nb)
{
	if (na != nb)
		return false;
	for (int i = 0; i < na; i++)
		if (strcmp(a[i].key, b[i].key) != 0 || strcmp(a[i].value, b[i].value) != 0)
			return false;
	return true;
}

static MetaConfigSet *
find_set(MetaConfigSets *sets, int32_t broker)
{
	for (int i = 0; i < sets->n; i++)
		if (sets->sets[i].broker == broker)
			return &sets->sets[i];
	return NULL;
}

void
meta_image_configs_begin(MetaImage *image)
{
	meta_config_sets_free(&image->incoming);
}

void
meta_image_configs_add(MetaImage *image, int32_t broker, const char *key, const char *value)
{
	MetaConfigSets *sets = &image->incoming;
	MetaConfigSet *set = find_set(sets, broker);

	if (set == NULL)
	{
		sets->sets = meta_realloc(sets->sets, (size_t) (sets->n + 1) * sizeof(*sets->sets));
		set = &sets->sets[sets->n++];
		*set = (MetaConfigSet){.broker = broker};
	}
	set->configs = meta_realloc(set->configs, (size_t) (set->n + 1) * sizeof(*set->configs));
	set->configs[set->n].key = meta_strndup(key, strlen(key));
	set->configs[set->n++].value = meta_strndup(value, strlen(value));
}

void
meta_image_configs_end(MetaImage *image)
{
	bool same = image->incoming.n == image->configs.n;

	for (int i = 0; i < image->incoming.n; i++)
	{
		MetaConfigSet *set = &image->incoming.sets[i], *old = find_set(&image->configs, set->broker);

		qsort(set->configs, (size_t) set->n, sizeof(*set->configs), compare_configs);
		same = same && old != NULL && configs_equal(old->configs, old->n, set->configs, set->n);
	}
	if (same)
	{
		meta_config_sets_free(&image->incoming);
		return;
	}
	meta_config_sets_free(&image->configs);
	image->configs = image->incoming;
	image->incoming = (MetaConfigSets){0};
	image->view.configs_changed = true;
	image->changes++;
}

/* ---- packed partitions ---- */

typedef struct Unpacker
{
	const uint8_t *p;
	size_t left;
	bool failed;
} Unpacker;

static int32_t
take_int(Unpacker *u)
{
	uint32_t v;

	if (u->left < 4)
	{
		u->failed = true;
		u->left = 0;
		return 0;
	}
	v = (uint32_t) u->p[0] << 24 | (uint32_t) u->p[1] << 16 | (uint32_t) u->p[2] << 8 | u->p[3];
	u->p += 4;
	u->left -= 4;
	return (int32_t) v;
}

/* One partition as it came, its lists in one run. */
typedef struct PartitionRow
{
	int32_t partition;
	MetaPartition head; /* without ids */
	int32_t ids[5 * META_MAX_LIST];
	int n_ids;
} PartitionRow;

static uint8_t
take_list(Unpacker *u, PartitionRow *row)
{
	int32_t n = take_int(u);

	if (n < 0 || n > META_MAX_LIST || (size_t) n * 4 > u->left)
	{
		u->failed = true;
		return 0;
	}
	for (int32_t i = 0; i < n; i++)
		row->ids[row->n_ids++] = take_int(u);
	return (uint8_t) n;
}

static bool
take_partition(Unpacker *u, PartitionRow *row)
{
	row->n_ids = 0;
	row->partition = take_int(u);
	row->head.leader = take_int(u);
	row->head.leader_epoch = take_int(u);
	row->head.partition_epoch = take_int(u);
	row->head.n_replicas = take_list(u, row);
	row->head.n_isr = take_list(u, row);
	row->head.n_adding = take_list(u, row);
	row->head.n_removing = take_list(u, row);
	row->head.n_elr = take_list(u, row);
	return !u->failed && row->partition >= 0 && row->partition < META_MAX_PARTITIONS &&
		   row->head.partition_epoch >= 0;
}

/* A first pass over the whole row, so that a malformed one changes nothing. */
static bool
check_partitions(const MetaTopicRow *row, int32_t *count, int32_t *highest)
{
	Unpacker u = {.p = row->partitions, .left = row->partitions == NULL ? 0 : row->partitions_len};
	PartitionRow p;

	*count = 0;
	*highest = -1;
	while (u.left > 0)
	{
		if (!take_partition(&u, &p))
			return false;
		(*count)++;
		if (p.partition > *highest)
			*highest = p.partition;
	}
	return true;
}

static void
grow_partitions(MetaImage *image, MetaTopic *topic, int32_t n)
{
	if (n <= topic->n_partitions)
		return;
	topic->partitions = meta_realloc(topic->partitions, (size_t) n * sizeof(*topic->partitions));
	for (int32_t i = topic->n_partitions; i < n; i++)
		topic->partitions[i] = (MetaPartition){.leader = -1, .leader_epoch = -1, .partition_epoch = -1};
	image->n_partitions += n - topic->n_partitions;
	topic->n_partitions = n;
}

/* See the header: a row that is older than what is held is dropped. */
static bool
is_older(const MetaPartition *held, const MetaPartition *row)
{
	if (row->leader_epoch != held->leader_epoch)
		return row->leader_epoch < held->leader_epoch;
	return row->partition_epoch < held->partition_epoch;
}

static bool
is_same(const MetaPartition *held, const PartitionRow *row)
{
	const MetaPartition *r = &row->head;

	return held->leader == r->leader && held->leader_epoch == r->leader_epoch &&
		   held->partition_epoch == r->partition_epoch && held->n_replicas == r->n_replicas &&
		   held->n_isr == r->n_isr && held->n_adding == r->n_adding && held->n_removing == r->n_removing &&
		   held->n_elr == r->n_elr &&
		   memcmp(meta_partition_replicas(held), row->ids, (size_t) row->n_ids * sizeof(int32_t)) == 0;
}

static void
store_partition(MetaImage *image, MetaPartition *held, const PartitionRow *row)
{
	size_t bytes = (size_t) row->n_ids * sizeof(int32_t);

	if (meta_partition_n_ids(held) > META_INLINE_IDS)
	{
		image->list_bytes -= (size_t) meta_partition_n_ids(held) * sizeof(int32_t);
		free(held->ids.out);
	}
	*held = row->head;
	if (row->n_ids <= META_INLINE_IDS)
		memcpy(held->ids.in, row->ids, bytes);
	else
	{
		held->ids.out = meta_alloc(bytes);
		memcpy(held->ids.out, row->ids, bytes);
		image->list_bytes += bytes;
	}
}

/* The numbers of those that changed go to `changed`; returns how many. */
static int32_t
apply_partitions(MetaImage *image, MetaTopic *topic, const MetaTopicRow *row, int32_t *changed)
{
	Unpacker u = {.p = row->partitions, .left = row->partitions == NULL ? 0 : row->partitions_len};
	PartitionRow p;
	int32_t n = 0;

	while (u.left > 0 && take_partition(&u, &p))
	{
		MetaPartition *held = &topic->partitions[p.partition];

		if (held->partition_epoch >= 0 && (is_older(held, &p.head) || is_same(held, &p)))
			continue;
		store_partition(image, held, &p);
		changed[n++] = p.partition;
	}
	return n;
}

/* ---- topics ---- */

static void
unlink_topic(MetaImage *image, MetaTopic *topic)
{
	if (meta_image_topic(image, topic->name, topic->name_len) == topic)
		HASH_DELETE(hh_name, image->by_name, topic);
	HASH_DELETE(hh_id, image->by_id, topic);
	image->n_partitions -= topic->n_partitions;
}

static void
bury_topic(MetaImage *image, const WUuid *id)
{
	MetaTombstone *stone;
	MetaTopic *topic = meta_image_topic_by_id(image, id);

	if (topic != NULL)
	{
		unlink_topic(image, topic);
		add_change(image, META_TOPIC_DELETED, topic);
	}
	if (meta_image_is_deleted(image, id))
		return;
	stone = meta_alloc(sizeof(*stone));
	stone->id = *id;
	HASH_ADD(hh, image->tombstones, id, sizeof(stone->id), stone);
}

/* PostgreSQL has it again: an older backup from before the deletion. */
static void
unbury_topic(MetaImage *image, const WUuid *id)
{
	MetaTombstone *stone;

	HASH_FIND(hh, image->tombstones, id, sizeof(*id), stone);
	if (stone == NULL)
		return;
	HASH_DEL(image->tombstones, stone);
	free(stone);
}

static void
link_name(MetaImage *image, MetaTopic *topic)
{
	MetaTopic *other = meta_image_topic(image, topic->name, topic->name_len);

	/* The name was deleted and made again, and the tombstone comes with a later row: the new one has the
	 * name; the old one stays under its id until then. */
	if (other != NULL)
		HASH_DELETE(hh_name, image->by_name, other);
	HASH_ADD_KEYPTR(hh_name, image->by_name, topic->name, (unsigned) topic->name_len, topic);
}

static MetaTopic *
make_topic(MetaImage *image, const MetaTopicRow *row)
{
	MetaTopic *topic = meta_alloc(sizeof(*topic));

	topic->id = row->id;
	topic->name = meta_strndup(row->name, (size_t) row->name_len);
	topic->name_len = row->name_len;
	HASH_ADD(hh_id, image->by_id, id, sizeof(topic->id), topic);
	link_name(image, topic);
	return topic;
}

bool
meta_image_apply_topic(MetaImage *image, const MetaTopicRow *row, Err *err)
{
	MetaTopic *topic = meta_image_topic_by_id(image, &row->id);
	MetaTopicChangeKind kind = topic == NULL ? META_TOPIC_NEW : META_TOPIC_CHANGED;
	MetaConfig *configs;
	int n_configs;
	int32_t count, highest, n_changed;
	int32_t *changed;
	bool configs_changed;
	MetaTopicChange *change;

	if (row->deleted)
	{
		bury_topic(image, &row->id);
		return true;
	}
	if (row->name == NULL || row->name_len <= 0 || row->name_len > META_TOPIC_NAME_MAX)
		return err_set(err, 0, 0, "PostgreSQL sent a topic with a name of %d bytes", row->name_len);
	if (!check_partitions(row, &count, &highest))
		return err_set(err, 0, 0, "PostgreSQL sent malformed partitions of topic %.*s", row->name_len,
					   row->name);
	if (!parse_configs(row->config_json, &configs, &n_configs, err))
		return false;

	unbury_topic(image, &row->id);
	if (topic == NULL)
		topic = make_topic(image, row);
	topic->seen = true;
	grow_partitions(image, topic, highest + 1);
	changed = meta_alloc((size_t) count * sizeof(int32_t));
	n_changed = apply_partitions(image, topic, row, changed);
	configs_changed = !configs_equal(topic->configs, topic->n_configs, configs, n_configs);
	if (configs_changed)
	{
		meta_configs_free(topic->configs, topic->n_configs);
		topic->configs = configs;
		topic->n_configs = n_configs;
	}
	else
		meta_configs_free(configs, n_configs);
	if (row->version > topic->version)
		topic->version = row->version;
	if (kind == META_TOPIC_CHANGED && n_changed == 0 && !configs_changed)
	{
		free(changed);
		return true;
	}
	change = add_change(image, kind, topic);
	change->partitions = changed;
	change->n_partitions = n_changed;
	change->configs_changed = configs_changed;
	return true;
}

/* ---- brokers ---- */

static bool
take_endpoint(MetaJson *j, MetaEndpoint *e)
{
	char *key;

	*e = (MetaEndpoint){.port = -1};
	if (!meta_json_begin(j, '{'))
		return false;
	while ((key = meta_json_key(j)) != NULL)
	{
		char *value = meta_json_scalar(j);

		if (strcmp(key, "name") == 0 && e->name == NULL)
			e->name = value;
		else if (strcmp(key, "host") == 0 && e->host == NULL)
			e->host = value;
		else if (strcmp(key, "protocol") == 0 && e->protocol == NULL)
			e->protocol = value;
		else
		{
			if (strcmp(key, "port") == 0 && value != NULL)
				e->port = (int32_t) strtol(value, NULL, 10);
			free(value);
		}
		free(key);
	}
	return !j->failed && e->name != NULL && e->host != NULL && e->port >= 0 && e->port <= 65535;
}

static bool
parse_endpoints(const char *json, MetaBroker *broker)
{
	MetaJson j = {.p = json};

	if (json == NULL)
		return true;
	if (!meta_json_begin(&j, '['))
		return false;
	while (meta_json_element(&j))
	{
		broker->endpoints =
			meta_realloc(broker->endpoints, (size_t) (broker->n_endpoints + 1) * sizeof(MetaEndpoint));
		if (!take_endpoint(&j, &broker->endpoints[broker->n_endpoints++]))
			return false;
	}
	return meta_json_end(&j);
}

static bool
endpoints_equal(const MetaBroker *a, const MetaBroker *b)
{
	if (a->n_endpoints != b->n_endpoints)
		return false;
	for (int i = 0; i < a->n_endpoints; i++)
		if (strcmp(a->endpoints[i].name, b->endpoints[i].name) != 0 ||
			strcmp(a->endpoints[i].host, b->endpoints[i].host) != 0 ||
			a->endpoints[i].port != b->endpoints[i].port)
			return false;
	return true;
}

static bool
racks_equal(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void
insert_broker(MetaImage *image, MetaBroker *broker)
{
	int at = image->n_brokers;

	image->brokers = meta_realloc(image->brokers, (size_t) (image->n_brokers + 1) * sizeof(*image->brokers));
	while (at > 0 && image->brokers[at - 1]->id > broker->id)
	{
		image->brokers[at] = image->brokers[at - 1];
		at--;
	}
	image->brokers[at] = broker;
	image->n_brokers++;
}

/* Into the broker that is held, whose address others keep. */
static void
replace_broker(MetaBroker *held, MetaBroker *now)
{
	MetaBroker old = *held;

	*held = *now;
	held->user = old.user;
	held->left_ms =
		meta_broker_is_serving(&old) && !meta_broker_is_serving(now) ? clock_boot_ms() : old.left_ms;
	*now = old;
	meta_broker_free(now);
}

bool
meta_image_apply_broker(MetaImage *image, const MetaBrokerRow *row, Err *err)
{
	MetaBroker *held = meta_image_broker(image, row->id);
	MetaBroker *now;

	/* Reads can come in another order than they were written. */
	if (held != NULL && row->version < held->version)
	{
		held->seen = true;
		return true;
	}
	now = meta_alloc(sizeof(*now));
	*now = (MetaBroker){
		.id = row->id, .state = row->state, .epoch = row->epoch, .version = row->version, .seen = true};
	now->rack = row->rack == NULL ? NULL : meta_strndup(row->rack, strlen(row->rack));
	if (!parse_endpoints(row->endpoints_json, now))
	{
		meta_broker_free(now);
		return err_set(err, 0, 0, "PostgreSQL sent malformed endpoints of broker %d: %.200s", row->id,
					   row->endpoints_json);
	}
	if (held != NULL && held->state == now->state && held->epoch == now->epoch &&
		racks_equal(held->rack, now->rack) && endpoints_equal(held, now))
	{
		held->version = now->version;
		held->seen = true;
		meta_broker_free(now);
		return true;
	}
	if (held == NULL)
		insert_broker(image, now);
	else
		replace_broker(held, now);
	image->view.brokers_changed = true;
	image->changes++;
	return true;
}

/* ---- a read of everything ---- */

void
meta_image_full_begin(MetaImage *image)
{
	/* PostgreSQL may have gone back: versions count from anew, epochs do not (hazards A1). */
	for (MetaTopic *t = image->by_id; t != NULL; t = t->hh_id.next)
	{
		t->seen = false;
		t->version = -1;
	}
	for (int i = 0; i < image->n_brokers; i++)
	{
		image->brokers[i]->seen = false;
		image->brokers[i]->version = -1;
	}
}

void
meta_image_full_end(MetaImage *image)
{
	MetaTopic *topic, *next;
	int kept = 0;

	HASH_ITER (hh_id, image->by_id, topic, next)
	{
		if (topic->seen)
			continue;
		unlink_topic(image, topic);
		add_change(image, META_TOPIC_GONE, topic);
	}
	for (int i = 0; i < image->n_brokers; i++)
	{
		if (image->brokers[i]->seen)
			image->brokers[kept++] = image->brokers[i];
		else
		{
			meta_broker_free(image->brokers[i]);
			image->view.brokers_changed = true;
			image->changes++;
		}
	}
	image->n_brokers = kept;
}

void
meta_image_set_version(MetaImage *image, int64_t version)
{
	image->version = version;
	image->view.complete = true;
}
