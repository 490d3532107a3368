-- One table makes broker.help(), the COMMENTs that \df+ and \dv+ show, and docs/sql.md.

CREATE TABLE broker_internal.help (
	kind        text NOT NULL CHECK (kind IN ('function', 'view')),
	name        text NOT NULL,
	description text NOT NULL,
	needs       text NOT NULL,
	errors      text,
	example     text NOT NULL,
	kafka_cli   text,
	PRIMARY KEY (kind, name)
);

CREATE TABLE broker_internal.help_columns (
	view        text NOT NULL, -- '' = in every view that has no row of its own
	name        text NOT NULL,
	description text NOT NULL,
	PRIMARY KEY (view, name)
);

INSERT INTO broker_internal.help VALUES
('function', 'create_topic', 'Creates a topic. Brokers have it when the transaction commits; leaders and replicas are spread over brokers and racks. NULL for partitions or replication_factor takes the cluster''s num.partitions or default.replication.factor. Returns the topic''s id.',
	'broker_admin', 'PB017 PB036 PB037 PB038 PB039 PB040', 'SELECT broker.create_topic(''orders'', partitions => 3, config => ''{"retention.ms": "7 days"}'');', 'kafka-topics --create'),
('function', 'alter_topic', 'Merges configs into a topic key by key; JSON null goes back to the default. Shows each key before and after.',
	'broker_admin', 'PB003 PB040', 'SELECT * FROM broker.alter_topic(''orders'', ''{"retention.ms": "14 days", "flush.ms": null}'');', 'kafka-configs --entity-type topics --alter'),
('function', 'set_partition_count', 'Gives a topic more partitions, this many in all. Returns how many were added. Keys map to other partitions from then on.',
	'broker_admin', 'PB003 PB037', 'SELECT broker.set_partition_count(''orders'', 6);', 'kafka-topics --alter --partitions'),
('function', 'delete_topic', 'Deletes a topic: its name is free at the commit, its logs go after file.delete.delay.ms.',
	'broker_admin', 'PB003', 'SELECT broker.delete_topic(''orders'', if_exists => true);', 'kafka-topics --delete'),
('function', 'delete_records', 'Deletes the records of a partition before an offset; -1 is the high watermark. Returns the offset, NULL when it is not known yet. The leader does it after the commit.',
	'broker_admin', 'PB001 PB003', 'SELECT broker.delete_records(''orders'', 0, 1000);', 'kafka-delete-records'),
('function', 'purge_topic', 'Deletes all records of a topic up to the high watermark of each partition. before_offset is what was last reported.',
	'broker_admin', 'PB003', 'SELECT * FROM broker.purge_topic(''orders'');', 'kafka-delete-records with -1'),
('function', 'alter_cluster', 'Merges dynamic configs that hold for all brokers; JSON null goes back to what the brokers'' files say, or the default.',
	'broker_admin', 'PB040', 'SELECT * FROM broker.alter_cluster(''{"log.retention.ms": "3 days"}'');', 'kafka-configs --entity-type brokers --entity-default --alter'),
('function', 'alter_broker', 'Merges dynamic configs of one broker.',
	'broker_admin', 'PB040 PB102', 'SELECT * FROM broker.alter_broker(1, ''{"log.retention.ms": "3 days"}'');', 'kafka-configs --entity-type brokers --alter'),
('function', 'set_replication_factor', 'Gives every partition of a topic this many replicas. New ones go to the brokers with the fewest, in other racks where there are any; nothing else moves. throttle is bytes a second that each broker may give and take of it. dry_run only shows the plan.',
	'broker_admin', '22023 PB003 PB038 PB060', 'SELECT * FROM broker.set_replication_factor(''orders'', 3);', 'kafka-reassign-partitions'),
('function', 'reassign_partitions', 'Moves partitions to other brokers: exactly to replicas (with partitions), or by an even plan over brokers (NULL: all that are alive) that keeps racks apart and moves as little as it can. Without a topic all partitions take part, which is how new brokers get their share. throttle is bytes a second that each broker may give and take of the replicas that are copied, until they are in sync; it ends with the reassignment. Shows what changes; dry_run changes nothing.',
	'broker_admin', '22023 PB003 PB038 PB039 PB060', 'SELECT * FROM broker.reassign_partitions(''orders'', partitions => ''{0}'', replicas => ''{2,3}'', dry_run => true);', 'kafka-reassign-partitions --generate, --execute, --throttle'),
('function', 'cancel_reassignment', 'Takes back reassignments that are under way: the partitions have their old replicas again.',
	'broker_admin', 'PB003 PB039 PB085', 'SELECT * FROM broker.cancel_reassignment(''orders'');', 'kafka-reassign-partitions --cancel'),
('function', 'elect_leaders', 'Gives leadership to the preferred leader, the first of the replicas, where it is in sync. unclean elects for partitions without a leader whoever is alive, which may lose acknowledged records: only for partitions that are named, and recorded. Shows who will lead.',
	'broker_admin', '22023 PB003 PB080 PB083', 'SELECT * FROM broker.elect_leaders(''orders'');', 'kafka-leader-election'),
('function', 'drain_broker', 'Moves the leaderships of a broker to others and lets none come back, before work on its host. Returns how many move. It goes on as a follower.',
	'broker_admin', 'PB102', 'SELECT broker.drain_broker(3);', NULL),
('function', 'undrain_broker', 'Ends drain_broker, or takes decommission_broker back: the broker leads again where it is preferred. False when it was not drained.',
	'broker_admin', 'PB102', 'SELECT broker.undrain_broker(3);', NULL),
('function', 'decommission_broker', 'Moves every replica off a broker, alive or dead, and unregisters it then. It gets no new ones. throttle is bytes a second that each broker may give and take of what is copied. Shows the plan; dry_run changes nothing.',
	'broker_admin', '22023 PB038 PB060 PB102', 'SELECT * FROM broker.decommission_broker(3, dry_run => true);', 'kafka-reassign-partitions, then kafka-cluster unregister'),
('function', 'fence_broker', 'Ends the session of a broker and keeps it out of the cluster until unfence_broker. False when it was so already.',
	'broker_admin', 'PB102', 'SELECT broker.fence_broker(3);', NULL),
('function', 'unfence_broker', 'Lets a broker in again that fence_broker keeps out; it registers by itself. False when it was not kept out.',
	'broker_admin', 'PB102', 'SELECT broker.unfence_broker(3);', NULL),
('function', 'unregister_broker', 'Forgets a broker that is dead. Refused while it is alive or has the last replica of a partition, unless forced.',
	'broker_admin', 'PB102 PB904', 'SELECT broker.unregister_broker(3);', 'kafka-cluster unregister'),
('function', 'cancel_operation', 'Takes back what was asked for and has not happened yet. True when something was.',
	'who asked for it, or broker_admin', '22023 42501', 'SELECT broker.cancel_operation(17);', NULL),
('function', 'help', 'Lists functions and views with an example and the tool of Kafka that does the same; the word is looked for in names and descriptions.',
	'nothing', NULL, 'SELECT name, example FROM broker.help(''topic'');', NULL),
('function', 'wait', 'After COMMIT: returns when what this session asked for, or one operation, is done.',
	'nothing', 'PB007 PB902 25001', 'CALL broker.wait(timeout => ''10 s'');', NULL),
('view', 'cluster', 'The cluster in one row.', 'broker_viewer', NULL, 'SELECT * FROM broker.cluster;', 'kafka-metadata-quorum describe'),
('view', 'problems', 'What is wrong and what to do about it. Empty: all is well.', 'broker_viewer', NULL, 'SELECT severity, object, problem, hint FROM broker.problems;', NULL),
('view', 'brokers', 'Brokers, dead ones too, with what clients are told and what they hold.', 'broker_viewer', NULL, 'SELECT broker_id, state, endpoints, leaders FROM broker.brokers;', 'kafka-broker-api-versions'),
('view', 'topics', 'Topics with their main settings and figures.', 'broker_viewer', NULL, 'SELECT topic, partitions, retention, size_bytes FROM broker.topics;', 'kafka-topics --list, --describe'),
('view', 'topic_configs', 'Every config of every topic, with where its value is from.', 'broker_viewer', NULL, 'SELECT config_key, pretty, source FROM broker.topic_configs WHERE topic = ''orders'' AND source <> ''default'';', 'kafka-configs --entity-type topics --describe --all'),
('view', 'settings', 'Dynamic configs of the cluster and of brokers, with where their value is from.', 'broker_viewer', NULL, 'SELECT config_key, pretty, source FROM broker.settings WHERE scope = ''cluster'';', 'kafka-configs --entity-type brokers --describe --all'),
('view', 'config_keys', 'Every config key that there is, with bounds and meaning.', 'nothing', NULL, 'SELECT * FROM broker.config_keys WHERE config_key LIKE ''retention%'';', NULL),
('view', 'partitions', 'Partitions with leader, in-sync replicas and offsets.', 'broker_viewer', NULL, 'SELECT partition, leader, isr, high_watermark FROM broker.partitions WHERE topic = ''orders'';', 'kafka-topics --describe, kafka-get-offsets'),
('view', 'replicas', 'Replicas with their offsets, lag and size, as each broker reports them.', 'broker_viewer', NULL, 'SELECT partition, broker_id, in_sync, lag, size_bytes FROM broker.replicas WHERE topic = ''orders'';', 'kafka-log-dirs, kafka-replica-verification'),
('view', 'reassignments', 'Partitions that move to other brokers, and what each waits for.', 'broker_viewer', NULL, 'SELECT topic, partition, adding, bytes_left, waiting_for FROM broker.reassignments;', 'kafka-reassign-partitions --verify, --list'),
('view', 'events', 'What happened: elections, ISR changes, registrations, what people and clients changed.', 'broker_viewer', NULL, 'SELECT event_time, kind, object, old, new, actor, reason FROM broker.events ORDER BY event_id DESC LIMIT 20;', NULL),
('view', 'operations', 'What people asked for, how far it is and what it waits for.', 'broker_viewer; everybody sees his own', NULL, 'SELECT * FROM broker.operations WHERE state IN (''waiting'', ''running'');', NULL);

INSERT INTO broker_internal.help_columns VALUES
('', 'topic', 'Name of the topic.'),
('', 'topic_id', 'Id of the topic; a new topic of the same name has another.'),
('', 'partition', 'Number of the partition, from 0.'),
('', 'broker_id', 'Id of the broker (node.id).'),
('', 'reported_at', 'When the broker last reported; what it did not mention then is unchanged.'),
('', 'report_age', 'Time since the report. A dead broker''s figures stay, and age.'),
('', 'config_key', 'Kafka''s name of the config.'),
('', 'value', 'The value in Kafka''s unit.'),
('', 'pretty', 'The value for people, such as 7 days.'),
('', 'default_value', 'The value without any override.'),
('', 'changed_at', 'When it was changed.'),
('', 'changed_by', 'By whom.'),
('', 'scope', 'What the key or value belongs to: topic, cluster, broker, group.'),
('', 'size_bytes', 'Bytes of the log.'),
('', 'last_append_at', 'When the last record was appended.'),
('', 'replicas', 'Brokers that hold a replica, in order of preference.'),
('', 'leader_epoch', 'Counts the leaders of the partition.'),
('', 'log_start_offset', 'Offset of the first record that is kept.'),
('', 'log_end_offset', 'Offset that the next record gets.'),
('', 'object', 'What it is about, such as topic orders or broker 3.'),
('', 'kind', 'What it is.'),
('', 'is_used', 'False: accepted for clients'' sake, without effect.'),
('', 'unit', 'ms, bytes, or NULL.'),
('', 'allowed', 'Values that are allowed.'),
('', 'needs_restart', 'True: brokers take it up when they start.'),
('', 'description', 'What it does.'),
('', 'source', 'Where the value is from: topic, broker, cluster, static (the broker''s file), default.'),
('', 'partitions', 'Number of partitions.'),
('', 'records', 'Offsets between the log start and the high watermark; in compacted or transactional topics more than records.'),
('', 'state', 'Its state.'),
('cluster', 'cluster_id', 'Id of the cluster; NULL until the first broker registers.'),
('cluster', 'controller_id', 'Broker that runs the decisions; NULL: none at the moment.'),
('cluster', 'controller_epoch', 'Counts the controllers.'),
('cluster', 'controller_since', 'Since when it is the controller.'),
('cluster', 'brokers', 'Registered brokers.'),
('cluster', 'brokers_alive', 'Brokers whose process is there.'),
('cluster', 'topics', 'Number of topics.'),
('cluster', 'offline_partitions', 'Partitions without a leader.'),
('cluster', 'under_replicated_partitions', 'Partitions with replicas that are not in sync.'),
('cluster', 'under_min_isr_partitions', 'Partitions below min.insync.replicas.'),
('cluster', 'problems', 'Rows of broker.problems.'),
('cluster', 'extension_version', 'Version of pg_broker in this database.'),
('cluster', 'oldest_broker_version', 'Oldest version of a broker that is alive.'),
('problems', 'severity', 'critical: data cannot be written or read, or may be lost; warning: will be, if nothing is done; info.'),
('problems', 'since', 'Since when.'),
('problems', 'problem', 'What is wrong.'),
('problems', 'hint', 'What to do.'),
('brokers', 'state', 'alive, draining (controlled shutdown, or drain_broker), fenced (fence_broker), dead, decommissioning.'),
('brokers', 'is_controller', 'True for the controller.'),
('brokers', 'rack', 'broker.rack: replicas of a partition are spread over racks.'),
('brokers', 'endpoints', 'What clients are told to connect to.'),
('brokers', 'version', 'Version of brokerd.'),
('brokers', 'broker_epoch', 'Changes with every start of the process.'),
('brokers', 'registered_at', 'When this process registered.'),
('brokers', 'last_seen_at', 'Its last statement; on a standby its last report.'),
('brokers', 'silent_for', 'Time since then.'),
('brokers', 'leaders', 'Partitions that it leads.'),
('brokers', 'replicas', 'Replicas that it holds.'),
('brokers', 'out_of_sync', 'Its replicas that are not in the ISR.'),
('brokers', 'disk_free_bytes', 'Free bytes on the file system of its data.'),
('brokers', 'disk_total_bytes', 'Size of that file system.'),
('brokers', 'connections', 'Connections of clients and brokers.'),
('topics', 'replication_factor', 'Replicas of each partition.'),
('topics', 'min_isr', 'min.insync.replicas; when nobody has set it, 2 for three replicas or more, else 1.'),
('topics', 'cleanup_policy', 'cleanup.policy.'),
('topics', 'retention', 'retention.ms and retention.bytes, for people.'),
('topics', 'overrides', 'Number of configs of its own.'),
('topics', 'offline', 'Partitions without a leader.'),
('topics', 'under_replicated', 'Partitions with replicas that are not in sync.'),
('topics', 'under_min_isr', 'Partitions below min.insync.replicas.'),
('topics', 'size_bytes', 'Bytes of the leaders'' logs.'),
('topics', 'created_at', 'When it was created.'),
('topics', 'created_by', 'PostgreSQL role or Kafka principal that created it.'),
('partitions', 'leader', 'Broker that leads; NULL: offline.'),
('partitions', 'preferred_leader', 'First of the replicas.'),
('partitions', 'partition_epoch', 'Counts the changes of this row.'),
('partitions', 'isr', 'In-sync replicas: those that can take over without loss.'),
('partitions', 'offline_replicas', 'Replicas on brokers that are dead.'),
('partitions', 'is_offline', 'No leader.'),
('partitions', 'is_under_replicated', 'Replicas are not in sync.'),
('partitions', 'is_under_min_isr', 'Fewer in sync than min.insync.replicas: acks=all is refused.'),
('partitions', 'is_at_min_isr', 'One more loss stops acks=all.'),
('partitions', 'elr', 'Eligible leader replicas: left the ISR while it was below min.insync.replicas and have all that was committed (KIP-966).'),
('reassignments', 'replicas', 'Its replicas before.'),
('reassignments', 'target_replicas', 'Its replicas when it is done.'),
('reassignments', 'adding', 'Replicas that copy the log.'),
('reassignments', 'removing', 'Replicas that go when it is done.'),
('reassignments', 'bytes_left', 'Bytes still to copy, as reported.'),
('reassignments', 'started_at', 'When it began.'),
('reassignments', 'requested_by', 'Role or Kafka principal that asked for it.'),
('reassignments', 'waiting_for', 'What it waits for.'),
('reassignments', 'throttle_bytes', 'Bytes a second that each broker may give and take, as the operation says that moves it.'),
('partitions', 'leader_since', 'Since when this broker leads, or nobody does.'),
('partitions', 'high_watermark', 'Offset up to which consumers read.'),
('partitions', 'last_stable_offset', 'Offset up to which read_committed consumers read.'),
('replicas', 'is_leader', 'True for the leader.'),
('replicas', 'in_sync', 'Is it in the ISR?'),
('replicas', 'state', 'online, offline (its broker is dead), quarantined (its log cannot be used).'),
('replicas', 'lag', 'Offsets behind the leader, as far as reported.'),
('replicas', 'caught_up_at', 'When it was reported level with the leader; NULL: it is behind.'),
('replicas', 'log_dir', 'Data directory.'),
('events', 'event_id', 'Number of the event.'),
('events', 'event_time', 'When it happened.'),
('events', 'group_id', 'Consumer group.'),
('events', 'old', 'Before.'),
('events', 'new', 'After.'),
('events', 'details', 'More, by kind.'),
('events', 'actor', 'PostgreSQL role or Kafka principal; NULL: the control plane itself.'),
('events', 'via', 'sql, kafka or controller.'),
('events', 'client_addr', 'Address of the client.'),
('events', 'reason', 'Why: the control plane''s reason, or broker.reason of the session.'),
('operations', 'operation_id', 'Number of the operation.'),
('operations', 'state', 'waiting, running, done, failed, cancelled.'),
('operations', 'progress', 'From 0 to 1.'),
('operations', 'waiting_for', 'What it waits for.'),
('operations', 'error', 'Why it failed.'),
('operations', 'requested_by', 'Role that asked for it.'),
('operations', 'requested_at', 'When it was asked for.'),
('operations', 'finished_at', 'When it was done.');

CREATE FUNCTION broker_internal.do_help(caller text, search text) RETURNS TABLE (name text, signature text, description text, example text, kafka_cli text)
STABLE LANGUAGE sql AS $$
	SELECT h.name, CASE h.kind WHEN 'view' THEN 'view' ELSE
			(SELECT format('%s(%s)%s', h.name, pg_get_function_arguments(p.oid), coalesce(' → ' || pg_get_function_result(p.oid), ''))
				FROM pg_proc p WHERE p.pronamespace = 'broker'::regnamespace AND p.proname = h.name) END,
		h.description, h.example, h.kafka_cli
	FROM help h
	WHERE $2 IS NULL OR h.name ILIKE '%' || $2 || '%' OR h.description ILIKE '%' || $2 || '%' OR h.kafka_cli ILIKE '%' || $2 || '%'
	ORDER BY h.kind, h.name
$$;

-- The comments, so that \df+ and \dv+ show the same.
CREATE FUNCTION broker_internal.set_comments() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT p.oid::regprocedure AS id, h.description || ' Needs: ' || h.needs || '.' || coalesce(' Errors: ' || h.errors || '.', '') || ' Example: ' || h.example AS words
		FROM help h JOIN pg_proc p ON p.proname = h.name AND p.pronamespace = 'broker'::regnamespace WHERE h.kind = 'function'
	LOOP
		EXECUTE format('COMMENT ON ROUTINE %s IS %L', c.id, c.words);
	END LOOP;
	FOR c IN SELECT h.name, h.description || ' Example: ' || h.example AS words FROM help h WHERE h.kind = 'view' LOOP
		EXECUTE format('COMMENT ON VIEW broker.%I IS %L', c.name, c.words);
	END LOOP;
	FOR c IN SELECT DISTINCT ON (v.relname, a.attname) v.relname, a.attname, h.description AS words
		FROM pg_class v JOIN pg_attribute a ON a.attrelid = v.oid AND a.attnum > 0 JOIN help_columns h ON h.name = a.attname AND h.view IN ('', v.relname)
		WHERE v.relnamespace = 'broker'::regnamespace AND v.relkind = 'v' ORDER BY 1, 2, h.view DESC
	LOOP
		EXECUTE format('COMMENT ON COLUMN broker.%I.%I IS %L', c.relname, c.attname, c.words);
	END LOOP;
END
$$;
SELECT broker_internal.set_comments();
COMMENT ON SCHEMA broker IS 'pg_broker: functions and views for people. SELECT * FROM broker.help();';
COMMENT ON SCHEMA broker_internal IS 'pg_broker: tables, and functions for brokerd. Not for people.';
