-- Tables.  No foreign keys: a KEY SHARE lock a row would let a person's open transaction hold up the control
-- plane.  No index on leader or isr: elections scan (36 ms for 100,000 partitions) and their updates stay HOT.

-- The cluster: one row, made when the first broker registers, so that a restored dump keeps the id.
-- Every function that writes control state updates it first (lock 1).
CREATE TABLE broker_internal.cluster (
	one             bool        PRIMARY KEY DEFAULT true CHECK (one),
	cluster_id      text        NOT NULL,
	secret          bytea       NOT NULL,               -- brokers prove each other that they are of this cluster
	version         bigint      NOT NULL,               -- metadata version: order of versions = order of commits
	changes_since   bigint      NOT NULL DEFAULT 0,     -- changes up to this version are pruned
	configs_version bigint      NOT NULL DEFAULT 0,     -- version at which a cluster or broker config changed
	placed          bigint      NOT NULL DEFAULT 0,     -- partitions placed so far: where the next placement starts
	created_at      timestamptz NOT NULL DEFAULT now(),
	-- The controller: who holds the advisory lock, and by which session.
	controller_id    int,
	controller_epoch int        NOT NULL DEFAULT 0,
	controller_since timestamptz,
	controller_pid   int,
	controller_start timestamptz,
	-- PostgreSQL can go backwards (hazards A1): what it was when these rows were last known to be the newest.
	pg_incarnation      bigint  NOT NULL DEFAULT 1,
	pg_identity         text    NOT NULL,               -- system id, timeline, database, table
	incarnation_since   timestamptz NOT NULL DEFAULT now(),
	incarnation_version bigint  NOT NULL DEFAULT 0,
	epoch_floor         int     NOT NULL DEFAULT 0,     -- no leader epoch below it is given any more
	-- More than half of the brokers silent in one tick: who, and since when.
	guard_since     timestamptz,
	guard_brokers   int[],
	balanced_at     timestamptz,                        -- when leaders were last looked at (auto.leader.rebalance.enable)
	min_isr_at      timestamptz                         -- when a min.insync.replicas last changed
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE broker_internal.brokers (
	broker_id       int         PRIMARY KEY,
	broker_epoch    bigint      NOT NULL,
	incarnation_id  uuid        NOT NULL,               -- the process
	directory_id    uuid        NOT NULL,               -- the disk
	disk_epoch      bigint      NOT NULL,               -- the epoch that this disk is known to carry
	disk_lost_in    bigint      NOT NULL DEFAULT 0,     -- the incarnation in which it last came with another or older disk
	fenced          bool        NOT NULL DEFAULT false,
	fenced_at       timestamptz,
	fenced_why      text,
	stopping        bool        NOT NULL DEFAULT false, -- controlled shutdown under way
	drained         bool        NOT NULL DEFAULT false, -- leads only what nobody else can lead
	barred          bool        NOT NULL DEFAULT false, -- fenced by a person, and not let in again
	decommissioning bool        NOT NULL DEFAULT false, -- gets no replica any more; it is forgotten when it has none
	suspect_since   timestamptz,                        -- its session is gone
	backend_pid     int,
	backend_start   timestamptz,
	rack            text,
	endpoints       jsonb       NOT NULL,
	software        text        NOT NULL,
	static_config   jsonb       NOT NULL,
	registered_at   timestamptz NOT NULL,
	changed_version bigint      NOT NULL
) WITH (fillfactor = 50);

-- Brokers that were unregistered: when one comes back with its disk it is known, and no sign of an older backup.
CREATE TABLE broker_internal.former_brokers (LIKE broker_internal.brokers INCLUDING ALL);

CREATE TABLE broker_internal.topics (
	topic_id           uuid     PRIMARY KEY,
	topic              text     NOT NULL,
	partitions         int      NOT NULL,               -- as wished; placed when the partition rows are there
	replication_factor int      NOT NULL,
	assignment         jsonb,                           -- wished for partitions that are not placed yet
	created_at         timestamptz NOT NULL,
	created_by         text     NOT NULL,
	deleted_at         timestamptz,                     -- a tombstone: logs go only for these (hazards A7)
	logs_on            int[]                            -- brokers that still may have a log of the deleted topic
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX topics_name ON broker_internal.topics (topic) WHERE deleted_at IS NULL;
CREATE INDEX topics_deleted ON broker_internal.topics (deleted_at) WHERE deleted_at IS NOT NULL;
-- Names that differ only by '.' and '_' are one in metrics.
CREATE UNIQUE INDEX topics_metric_name ON broker_internal.topics (replace(topic, '.', '_')) WHERE deleted_at IS NULL;

CREATE TABLE broker_internal.partitions (
	topic_id        uuid        NOT NULL,
	partition       int         NOT NULL,
	leader          int         CHECK (leader IS NULL OR leader = ANY (isr)), -- NULL: offline
	leader_epoch    int         NOT NULL,
	partition_epoch int         NOT NULL,
	replicas        int[]       NOT NULL,
	isr             int[]       NOT NULL CHECK (isr <@ replicas AND array_position(isr, NULL) IS NULL),
	elr             int[]       NOT NULL DEFAULT '{}',
	adding          int[]       NOT NULL DEFAULT '{}',
	removing        int[]       NOT NULL DEFAULT '{}',
	origin          int[],                              -- the replicas before the reassignment under way; NULL: none is
	move_since      timestamptz,
	move_by         text,
	leader_since    timestamptz,
	incarnation     bigint      NOT NULL,               -- PostgreSQL's incarnation in which this row is known to be the newest
	settled_epoch   int         NOT NULL DEFAULT 0,     -- of a row that is not of the present one: the leader epoch that it had in its own
	version         bigint      NOT NULL,
	PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The few that are being reassigned.  Elections change none of these columns, so their updates stay HOT.
CREATE INDEX partitions_reassigned ON broker_internal.partitions (topic_id, partition) WHERE origin IS NOT NULL;

-- Replicas that a broker does not have any more by a decision of ours, until it says that their logs are gone: a
-- positive statement, since nothing is deleted because it is absent (hazards A7).  Not dumped: what a restored
-- database does not know is stray.
CREATE TABLE broker_internal.dropped_replicas (
	broker_id       int    NOT NULL,
	topic_id        uuid   NOT NULL,
	partition       int    NOT NULL,
	partition_epoch int    NOT NULL,                    -- of the row that no longer has it
	PRIMARY KEY (broker_id, topic_id, partition)
);

-- What changed at which version, so that a broker that asks "since v" costs what changed, not what there is.
CREATE TABLE broker_internal.changes (
	version  bigint NOT NULL,
	topic_id uuid   NOT NULL,
	PRIMARY KEY (version, topic_id)
);

-- Dynamic configs.  object: topic id, broker id or group id as text; '' for the cluster.
CREATE TABLE broker_internal.configs (
	scope      text NOT NULL CHECK (scope IN ('topic', 'cluster', 'broker', 'group')),
	object     text NOT NULL,
	config_key text NOT NULL,
	value      text NOT NULL,
	changed_at timestamptz NOT NULL,
	changed_by text NOT NULL,
	PRIMARY KEY (scope, object, config_key)
);

-- What people asked for and the control plane or a leader has to carry out.
CREATE SEQUENCE broker_internal.operation_ids;
CREATE TABLE broker_internal.operations (
	operation_id  bigint PRIMARY KEY DEFAULT nextval('broker_internal.operation_ids'),
	kind          text NOT NULL,
	object        text NOT NULL,
	topic_id      uuid,
	args          jsonb NOT NULL DEFAULT '{}',
	state         text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
	waiting_for   text,
	error         text,
	requested_by  text NOT NULL,
	requested_at  timestamptz NOT NULL DEFAULT now(),
	finished_at   timestamptz,
	session_pid   int NOT NULL DEFAULT pg_backend_pid(),
	session_start timestamptz
) WITH (fillfactor = 80);
CREATE INDEX operations_open ON broker_internal.operations (operation_id) WHERE state IN ('waiting', 'running');
CREATE INDEX operations_finished ON broker_internal.operations (finished_at) WHERE finished_at IS NOT NULL;

-- The partitions that an operation moves, with where to.
CREATE TABLE broker_internal.moves (
	operation_id bigint NOT NULL,
	topic_id     uuid   NOT NULL,
	partition    int    NOT NULL,
	target       int[]  NOT NULL,
	state        text   NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'started', 'done', 'failed', 'cancelled')),
	error        text,
	PRIMARY KEY (operation_id, topic_id, partition)
) WITH (fillfactor = 80);
CREATE INDEX moves_open ON broker_internal.moves (topic_id, partition) WHERE state IN ('waiting', 'started');

-- The parts of an operation that leaders carry out, one a partition.
CREATE TABLE broker_internal.operation_parts (
	operation_id bigint NOT NULL,
	partition    int    NOT NULL,
	topic_id     uuid   NOT NULL,
	args         jsonb  NOT NULL,
	result       bigint,
	error_code   int,                                   -- NULL: not done yet
	error        text,
	PRIMARY KEY (operation_id, partition)
);

CREATE SEQUENCE broker_internal.event_ids;
CREATE TABLE broker_internal.events (
	event_id    bigint PRIMARY KEY DEFAULT nextval('broker_internal.event_ids'),
	event_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
	kind        text NOT NULL,
	object      text NOT NULL,
	topic       text,
	partition   int,
	broker_id   int,
	group_id    text,
	old         text,
	new         text,
	details     jsonb,
	actor       text,
	via         text NOT NULL CHECK (via IN ('sql', 'kafka', 'controller')),
	client_addr inet,
	reason      text
);
CREATE INDEX events_time ON broker_internal.events (event_time);

-- What brokers report of their own logs, and of themselves.
CREATE TABLE broker_internal.partition_reports (
	topic_id           uuid NOT NULL,
	partition          int  NOT NULL,
	broker_id          int  NOT NULL,
	log_start_offset   bigint,
	high_watermark     bigint,
	last_stable_offset bigint,
	log_end_offset     bigint,
	size_bytes         bigint,
	last_append_at     timestamptz,
	is_online          bool,
	changed_at         timestamptz NOT NULL,
	PRIMARY KEY (topic_id, partition, broker_id)
) WITH (fillfactor = 70);

CREATE TABLE broker_internal.broker_reports (
	broker_id        int PRIMARY KEY,
	reported_at      timestamptz NOT NULL,              -- as of then all that was not reported is unchanged
	disk_free_bytes  bigint,
	disk_total_bytes bigint,
	connections      int,
	log_dir          text
) WITH (fillfactor = 50);

-- The last block of producer ids that was given: a row of its own, so that it never waits for lock 1.
CREATE TABLE broker_internal.producer_id_block (
	one   bool   PRIMARY KEY DEFAULT true CHECK (one),
	block bigint NOT NULL
) WITH (fillfactor = 10);

-- pg_dump carries what cannot be learned again: ids, assignments, epochs, tombstones, configs.
SELECT pg_catalog.pg_extension_config_dump('broker_internal.cluster', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.brokers', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.former_brokers', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.topics', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.partitions', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.configs', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.producer_id_block', '');
