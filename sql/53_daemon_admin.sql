-- What Kafka clients ask of a broker: each item by itself, its error as a Kafka code with a sentence.
-- Lock 1 is held: nothing here may wait for a person's open transaction.  Rows that one holds are skipped
-- or given up after 50 ms with REQUEST_TIMED_OUT (7), which clients repeat.

-- The Kafka code of an error of ours; NULL: it is none, raise it again.
CREATE FUNCTION broker_internal.kafka_error(state text) RETURNS int IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE WHEN state ~ '^PB[0-9]{3}$' AND state < 'PB900' THEN substr(state, 3)::int
		WHEN state IN ('55P03', '40P01') THEN 7 -- somebody holds the row
		WHEN state IN ('22023', '22P02') THEN 42 END
$$;

CREATE FUNCTION broker_internal.one_sentence(message text, detail text, hint text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE WHEN message = 'canceling statement due to lock timeout' THEN 'an open transaction is changing the same; try again' ELSE message END || CASE WHEN detail <> '' OR hint <> '' THEN '.' ELSE '' END || coalesce(' ' || nullif(detail, ''), '') || coalesce(' ' || nullif(hint, ''), '')
$$;

CREATE FUNCTION broker_internal.create_topics_1(actor text, client_addr inet, topics jsonb, validate_only bool)
RETURNS TABLE (topic text, topic_id uuid, error_code int, error_message text, partitions int, replication_factor int, config jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	wish   jsonb;
	n      record;
	detail text;
	hint   text;
BEGIN
	SELECT * INTO n FROM next_version();
	PERFORM set_config('lock_timeout', '50ms', true);
	FOR wish IN SELECT e FROM jsonb_array_elements(create_topics_1.topics) e LOOP
		topic := wish ->> 'name';
		topic_id := NULL; error_code := 0; error_message := NULL; partitions := -1; replication_factor := -1; config := NULL;
		BEGIN
			SELECT a.topic_id, a.partitions, a.replication_factor INTO topic_id, partitions, replication_factor
				FROM add_topic(topic, nullif((wish ->> 'partitions')::int, -1), nullif((wish ->> 'replication_factor')::int, -1),
					nullif(wish -> 'config', 'null'), nullif(wish -> 'assignment', 'null'), true, actor, 'kafka', client_addr) a;
			IF place_topic(topic_id, n.version, n.incarnation) IS NULL THEN
				RAISE EXCEPTION 'the topic waits for %', (SELECT cannot_place(t) FROM topics t WHERE t.topic_id = create_topics_1.topic_id) USING ERRCODE = 'PB038';
			END IF;
			SELECT coalesce(jsonb_object_agg(c.config_key, c.value), '{}') INTO config FROM configs c WHERE c.scope = 'topic' AND c.object = topic_id::text;
			IF validate_only THEN
				RAISE EXCEPTION USING ERRCODE = 'PB000', MESSAGE = 'only a check';
			END IF;
		EXCEPTION WHEN OTHERS THEN
			IF SQLSTATE = 'PB000' THEN
				topic_id := NULL;
			ELSE
				error_code := kafka_error(SQLSTATE);
				IF error_code IS NULL THEN
					RAISE;
				END IF;
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
				error_message := one_sentence(SQLERRM, detail, hint);
				topic_id := NULL; partitions := -1; replication_factor := -1; config := NULL;
			END IF;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;

CREATE FUNCTION broker_internal.delete_topics_1(actor text, client_addr inet, names text[], ids uuid[])
RETURNS TABLE (topic text, topic_id uuid, error_code int, error_message text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	wish   record;
	t      topics;
	n      record;
	detail text;
	hint   text;
BEGIN
	SELECT * INTO n FROM next_version();
	PERFORM set_config('lock_timeout', '50ms', true);
	FOR wish IN SELECT x.name, NULL::uuid AS id FROM unnest(names) x(name) UNION ALL SELECT NULL, y.id FROM unnest(ids) y(id) LOOP
		topic := wish.name;
		topic_id := wish.id; error_code := 0; error_message := NULL;
		BEGIN
			IF wish.id IS NOT NULL THEN
				SELECT x.topic INTO topic FROM topics x WHERE x.topic_id = wish.id AND x.deleted_at IS NULL;
				IF topic IS NULL THEN
					RAISE EXCEPTION 'no topic has the id %', wish.id USING ERRCODE = 'PB100';
				END IF;
			END IF;
			t := lock_topic(topic, false);
			topic_id := t.topic_id;
			PERFORM bury_topic(t, actor, 'kafka', client_addr);
			PERFORM drop_partitions(t.topic_id, n.version);
		EXCEPTION WHEN OTHERS THEN
			error_code := kafka_error(SQLSTATE);
			IF error_code IS NULL THEN
				RAISE;
			END IF;
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			error_message := one_sentence(SQLERRM, detail, hint);
		END;
		RETURN NEXT;
	END LOOP;
END
$$;

CREATE FUNCTION broker_internal.create_partitions_1(actor text, client_addr inet, topics jsonb, validate_only bool)
RETURNS TABLE (topic text, error_code int, error_message text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	wish   jsonb;
	more   jsonb;
	t      topics;
	n      record;
	detail text;
	hint   text;
BEGIN
	SELECT * INTO n FROM next_version();
	PERFORM set_config('lock_timeout', '50ms', true);
	FOR wish IN SELECT e FROM jsonb_array_elements(create_partitions_1.topics) e LOOP
		topic := wish ->> 'name';
		error_code := 0; error_message := NULL;
		BEGIN
			t := lock_topic(topic, false);
			more := NULL;
			IF jsonb_typeof(wish -> 'assignment') = 'array' THEN
				SELECT jsonb_object_agg(t.partitions + a.n - 1, a.e) INTO more FROM jsonb_array_elements(wish -> 'assignment') WITH ORDINALITY a(e, n);
			END IF;
			PERFORM add_partitions(t, (wish ->> 'count')::int, more, actor, 'kafka', client_addr);
			IF place_topic(t.topic_id, n.version, n.incarnation) IS NULL THEN
				RAISE EXCEPTION 'the partitions wait for %', (SELECT cannot_place(x) FROM topics x WHERE x.topic_id = t.topic_id) USING ERRCODE = 'PB038';
			END IF;
			IF validate_only THEN
				RAISE EXCEPTION USING ERRCODE = 'PB000', MESSAGE = 'only a check';
			END IF;
		EXCEPTION WHEN OTHERS THEN
			IF SQLSTATE <> 'PB000' THEN
				error_code := kafka_error(SQLSTATE);
				IF error_code IS NULL THEN
					RAISE;
				END IF;
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
				error_message := one_sentence(SQLERRM, detail, hint);
			END IF;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;

-- One resource's operations as the object that set_configs merges: set, delete, append and subtract on lists.
CREATE FUNCTION broker_internal.config_ops(scope_ text, object_ text, ops jsonb) RETURNS jsonb STABLE LANGUAGE plpgsql AS $$
DECLARE
	op     record;
	result jsonb := '{}';
	items  text[];
	given  text[];
BEGIN
	FOR op IN SELECT e ->> 'key' AS key, coalesce((e ->> 'op')::int, 0) AS op, e -> 'value' AS value FROM jsonb_array_elements(ops) e LOOP
		IF result ? op.key THEN
			RAISE EXCEPTION '"%" is changed twice', op.key USING ERRCODE = 'PB042';
		END IF;
		CASE op.op
			WHEN 0 THEN
				IF op.value IS NULL OR op.value = 'null' THEN
					RAISE EXCEPTION 'the value of "%" is null', op.key USING ERRCODE = 'PB040', HINT = 'Delete it to go back to the default.';
				END IF;
				result := result || jsonb_build_object(op.key, op.value);
			WHEN 1 THEN
				result := result || jsonb_build_object(op.key, NULL);
			WHEN 2, 3 THEN
				IF NOT EXISTS (SELECT FROM config_table() k WHERE k.scope = scope_ AND k.config_key = op.key AND k.type = 'list') THEN
					PERFORM config_check(scope_, op.key, coalesce((SELECT k.default_value FROM config_table() k WHERE k.scope = scope_ AND k.config_key = op.key), ''), true);
					RAISE EXCEPTION '"%" is no list: nothing can be appended or subtracted', op.key USING ERRCODE = 'PB040';
				END IF;
				items := string_to_array((SELECT e.value FROM effective_config(scope_, object_, op.key) e), ',');
				given := string_to_array(op.value #>> '{}', ',');
				IF op.op = 2 THEN
					items := items || ARRAY (SELECT trim(g) FROM unnest(given) g WHERE NOT trim(g) = ANY (items));
				ELSE
					items := ARRAY (SELECT i FROM unnest(items) WITH ORDINALITY u(i, n) WHERE NOT i = ANY (ARRAY (SELECT trim(g) FROM unnest(given) g)) ORDER BY n);
				END IF;
				result := result || jsonb_build_object(op.key, array_to_string(items, ','));
			ELSE
				RAISE EXCEPTION 'unknown operation % for "%"', op.op, op.key USING ERRCODE = 'PB042';
		END CASE;
	END LOOP;
	RETURN result;
END
$$;

CREATE FUNCTION broker_internal.alter_configs_1(actor text, client_addr inet, resources jsonb, validate_only bool, replace bool)
RETURNS TABLE (resource_type int, resource_name text, error_code int, error_message text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	r       jsonb;
	t       topics;
	n       record;
	scope_  text;
	object_ text;
	c       cluster;
	detail  text;
	hint    text;
BEGIN
	SELECT * INTO n FROM next_version();
	PERFORM set_config('lock_timeout', '50ms', true);
	FOR r IN SELECT e FROM jsonb_array_elements(resources) e LOOP
		resource_type := (r ->> 'type')::int;
		resource_name := r ->> 'name';
		error_code := 0; error_message := NULL;
		BEGIN
			CASE resource_type
				WHEN 2 THEN
					t := lock_topic(resource_name, false);
					scope_ := 'topic'; object_ := t.topic_id::text;
				WHEN 4 THEN
					scope_ := CASE WHEN resource_name = '' THEN 'cluster' ELSE 'broker' END; object_ := resource_name;
					IF resource_name <> '' AND NOT EXISTS (SELECT FROM brokers b WHERE b.broker_id::text = resource_name) THEN
						RAISE EXCEPTION 'broker "%" is not registered', resource_name USING ERRCODE = 'PB042';
					END IF;
				WHEN 32 THEN
					PERFORM check_config_group(resource_name);
					scope_ := 'group'; object_ := resource_name;
				ELSE
					RAISE EXCEPTION 'configs of resource type % cannot be changed', resource_type USING ERRCODE = 'PB042';
			END CASE;
			PERFORM set_configs(scope_, object_, resource_name, config_ops(scope_, object_, r -> 'ops'), true, replace, actor, 'kafka', client_addr);
			IF validate_only THEN
				RAISE EXCEPTION USING ERRCODE = 'PB000', MESSAGE = 'only a check';
			END IF;
			IF scope_ = 'topic' THEN
				INSERT INTO changes VALUES (n.version, t.topic_id) ON CONFLICT DO NOTHING;
			ELSE
				UPDATE cluster SET configs_version = n.version;
			END IF;
			IF scope_ <> 'group' AND (r -> 'ops')::text LIKE '%min.insync.replicas%' THEN
				PERFORM forget_eligible(CASE WHEN scope_ = 'topic' THEN t.topic_id END, n.version);
			END IF;
			IF scope_ <> 'group' AND (r -> 'ops')::text LIKE '%unclean.leader.election.enable%' THEN
				SELECT * INTO c FROM cluster;
				PERFORM decide('leaderless', '{}', n.version, c.epoch_floor, c.pg_incarnation, 'unclean.leader.election.enable was changed');
			END IF;
		EXCEPTION WHEN OTHERS THEN
			IF SQLSTATE <> 'PB000' THEN
				error_code := kafka_error(SQLSTATE);
				IF error_code IS NULL THEN
					RAISE;
				END IF;
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
				error_message := one_sentence(SQLERRM, detail, hint);
			END IF;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;
