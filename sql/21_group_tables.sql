-- Consumer groups: who coordinates them, their last generation, and their offsets.  No foreign keys, as above.

-- A group (and a transactional id) belongs to slot_of(id); the broker that holds the slot coordinates it.
CREATE TABLE broker_internal.slots (
	slot        int    PRIMARY KEY,
	coordinator int,                                    -- NULL: nobody yet
	epoch       bigint NOT NULL DEFAULT 0,              -- + 1 with each move
	moved_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE broker_internal.groups (
	group_id      text COLLATE "C"   PRIMARY KEY,
	slot          int    NOT NULL,
	generation    int    NOT NULL DEFAULT 0,
	fenced        bool   NOT NULL DEFAULT false,        -- `generation` was given by an administrator and nobody is in it yet
	state         text   NOT NULL DEFAULT 'empty',      -- as of the last note; exact when empty or stable
	protocol_type text,                                 -- NULL: a simple group, nobody ever joined
	assignor      text,
	leader        text,
	empty_since   timestamptz DEFAULT clock_timestamp(), -- NULL: it has members
	changed_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX groups_slot ON broker_internal.groups (slot, group_id);

-- The members of the last generation, with what a new coordinator needs to go on with it.
CREATE TABLE broker_internal.group_members (
	group_id             text COLLATE "C"  NOT NULL,
	member_id            text  NOT NULL,
	position             int   NOT NULL,                -- in order of joining
	instance_id          text,
	client_id            text  NOT NULL,
	client_host          text  NOT NULL,
	session_timeout_ms   int   NOT NULL,
	rebalance_timeout_ms int   NOT NULL,
	protocols            bytea NOT NULL,                -- names and subscriptions, packed by brokerd
	assignment           bytea NOT NULL,                -- as the leader sent it
	partitions           jsonb,                         -- the same for people, NULL: not readable
	joined_at            timestamptz NOT NULL,
	PRIMARY KEY (group_id, member_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- metadata is bytea: a client may put anything in it.  commit_no orders commits across doors.
CREATE SEQUENCE broker_internal.commit_numbers CACHE 1;
CREATE TABLE broker_internal.offsets (
	group_id         text COLLATE "C"   NOT NULL,
	topic_id         uuid   NOT NULL,
	partition        int    NOT NULL,
	committed_offset bigint NOT NULL,
	leader_epoch     int,
	metadata         bytea,
	committed_at     timestamptz NOT NULL,
	commit_no        bigint NOT NULL,
	PRIMARY KEY (group_id, topic_id, partition)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE TABLE broker_internal.rebalances (
	group_id         text COLLATE "C" NOT NULL,
	generation       int  NOT NULL,
	started_at       timestamptz NOT NULL,
	duration         interval NOT NULL,
	reason           text NOT NULL,
	member           text,
	members_before   int  NOT NULL,
	members_after    int  NOT NULL,
	partitions_moved int  NOT NULL,
	coordinator      int  NOT NULL,
	PRIMARY KEY (group_id, generation)
);
CREATE INDEX rebalances_time ON broker_internal.rebalances (started_at);

SELECT pg_catalog.pg_extension_config_dump('broker_internal.slots', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.groups', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.group_members', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.commit_numbers', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.offsets', '');
