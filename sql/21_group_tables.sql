-- Consumer groups: who coordinates them, their last generation, and their offsets.  No foreign keys, as above.

-- A group (and a transactional id) belongs to slot_of(id); the broker that holds the slot coordinates it.
CREATE TABLE broker_internal.slots (
	slot        int    PRIMARY KEY,
	coordinator int,                                    -- NULL: nobody yet
	epoch       bigint NOT NULL DEFAULT 0,              -- + 1 with each move
	moved_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- group_no stands for the group in the other tables: a group id may have 32 KB, which no btree takes, and eight bytes
-- compare faster.  A group that is deleted and made again has another one.  A hash index holds hashes, so ids of any
-- length fit; the constraint compares the ids themselves.
CREATE SEQUENCE broker_internal.group_numbers;
CREATE TABLE broker_internal.groups (
	group_no      bigint PRIMARY KEY DEFAULT nextval('broker_internal.group_numbers'),
	group_id      text COLLATE "C" NOT NULL,
	slot          int    NOT NULL,
	generation    int    NOT NULL DEFAULT 0,
	fenced        bool   NOT NULL DEFAULT false,        -- `generation` was given by an administrator and nobody is in it yet
	state         text   NOT NULL DEFAULT 'empty',      -- as of the last note; exact when empty or stable
	protocol_type text,                                 -- NULL: a simple group, nobody ever joined
	assignor      text,
	leader        text,
	empty_since   timestamptz DEFAULT clock_timestamp(), -- NULL: it has members
	changed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
	CONSTRAINT groups_id EXCLUDE USING hash (group_id WITH =)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX groups_slot ON broker_internal.groups (slot);

-- The members of the last generation, with what a new coordinator needs to go on with it.
CREATE TABLE broker_internal.group_members (
	group_no             bigint NOT NULL,
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
	PRIMARY KEY (group_no, member_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Columns of fixed width first: a key is compared without a walk over what stands before it.
-- metadata is bytea: a client may put anything in it.  commit_no orders commits across doors.
CREATE SEQUENCE broker_internal.commit_numbers CACHE 1;
CREATE TABLE broker_internal.offsets (
	group_no         bigint NOT NULL,
	topic_id         uuid   NOT NULL,
	partition        int    NOT NULL,
	committed_offset bigint NOT NULL,
	leader_epoch     int,
	metadata         bytea,
	committed_at     timestamptz NOT NULL,
	commit_no        bigint NOT NULL,
	PRIMARY KEY (group_no, topic_id, partition)
) WITH (fillfactor = 50, -- a batch may write every row of a page
	 autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- History: it outlives its group, so it has the id too.
CREATE TABLE broker_internal.rebalances (
	group_no         bigint NOT NULL,
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
	PRIMARY KEY (group_no, generation)
);
CREATE INDEX rebalances_time ON broker_internal.rebalances (started_at);

SELECT pg_catalog.pg_extension_config_dump('broker_internal.slots', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.group_numbers', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.groups', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.group_members', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.commit_numbers', '');
SELECT pg_catalog.pg_extension_config_dump('broker_internal.offsets', '');
