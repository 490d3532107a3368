-- Configs: checked against extension/config_keys.def, merged key by key, JSON null resets.

-- A JSON value as the text that is checked: numbers and strings as they are, arrays joined by commas.
CREATE FUNCTION broker_internal.config_text(config_key text, value jsonb) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	CASE jsonb_typeof(value)
		WHEN 'null' THEN RETURN NULL;
		WHEN 'array' THEN RETURN (SELECT coalesce(string_agg(e, ','), '') FROM jsonb_array_elements_text(value) e);
		WHEN 'object' THEN RAISE EXCEPTION 'the value of "%" is an object', config_key USING ERRCODE = 'PB040';
		ELSE RETURN value #>> '{}';
	END CASE;
END
$$;

-- What a key is now and where from: topic, broker, cluster, static, default.
CREATE FUNCTION broker_internal.effective_config(scope text, object text, key text, OUT value text, OUT source text) STABLE LANGUAGE sql AS $$
	SELECT x.value, x.source FROM (
		SELECT 1 AS n, c.value, c.scope AS source FROM configs c WHERE c.scope = $1 AND c.object = $2 AND c.config_key = $3
		UNION ALL
		SELECT 2, c.value, 'cluster' FROM configs c, config_table() k
			WHERE $1 IN ('topic', 'broker') AND k.scope = $1 AND k.config_key = $3 AND c.scope = 'cluster' AND c.object = '' AND c.config_key = coalesce(k.synonym, $3)
		UNION ALL
		(SELECT 3, b.static_config ->> coalesce(k.synonym, $3), 'static' FROM brokers b, config_table() k
			WHERE $1 <> 'group' AND k.scope = $1 AND k.config_key = $3 AND b.static_config ? coalesce(k.synonym, $3)
				AND ($1 <> 'broker' OR b.broker_id::text = $2)
			ORDER BY b.fenced, b.broker_id LIMIT 1)
		UNION ALL
		SELECT 4, k.default_value, 'default' FROM config_table() k WHERE k.scope = $1 AND k.config_key = $3
	) x ORDER BY x.n LIMIT 1
$$;

-- Merges `config`.  replace: what is not named goes back to its default (Kafka's old AlterConfigs).
-- One row for each key that changed or was named.
CREATE FUNCTION broker_internal.set_configs(scope_ text, object_ text, label text, config jsonb, strict bool, replace bool, actor text, via text, client_addr inet)
RETURNS TABLE (config_key text, old_value text, new_value text, source text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	item    record;
	text_in text;
	kept    text;
	why     text;
	old_own text;
BEGIN
	IF jsonb_typeof(config) IS DISTINCT FROM 'object' THEN
		RAISE EXCEPTION 'a config is a JSON object' USING ERRCODE = '22023', HINT = 'Such as ''{"retention.ms": "7 days"}''.';
	END IF;
	FOR item IN
		SELECT key, value FROM jsonb_each(config)
		UNION ALL
		SELECT c.config_key, 'null' FROM configs c WHERE replace AND c.scope = scope_ AND c.object = object_ AND NOT config ? c.config_key
		ORDER BY 1
	LOOP
		config_key := item.key;
		text_in := config_text(item.key, item.value);
		SELECT e.value INTO old_value FROM effective_config(scope_, object_, item.key) e;
		SELECT c.value INTO old_own FROM configs c WHERE c.scope = scope_ AND c.object = object_ AND c.config_key = item.key;
		-- a reset of an unknown key is refused too
		kept := config_check(scope_, item.key, coalesce(text_in, (SELECT k.default_value FROM config_table() k WHERE k.scope = scope_ AND k.config_key = item.key), ''), strict);
		IF text_in IS NULL THEN
			DELETE FROM configs c WHERE c.scope = scope_ AND c.object = object_ AND c.config_key = item.key;
			kept := NULL;
		ELSE
			why := config_unused(scope_, item.key, kept);
			IF why IS NOT NULL AND via = 'sql' THEN
				RAISE NOTICE '"%" = % has no effect: %', item.key, kept, why USING HINT = 'It is kept for clients that set it. See is_used in broker.config_keys.';
			END IF;
			INSERT INTO configs AS c VALUES (scope_, object_, item.key, kept, clock_timestamp(), actor)
				ON CONFLICT (scope, object, config_key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at, changed_by = excluded.changed_by
				WHERE c.value <> excluded.value;
		END IF;
		SELECT e.value, e.source INTO new_value, source FROM effective_config(scope_, object_, item.key) e;
		IF old_own IS DISTINCT FROM kept THEN
			PERFORM add_event(scope_ || '.config', label_of(scope_, label), CASE WHEN scope_ = 'topic' THEN label END, NULL,
				CASE WHEN scope_ = 'broker' THEN object_::int END, CASE WHEN scope_ = 'group' THEN object_ END,
				old_own, kept, jsonb_build_object('config_key', item.key), actor, via, client_addr, NULL);
		END IF;
		RETURN NEXT;
	END LOOP;
END
$$;

CREATE FUNCTION broker_internal.label_of(scope text, name text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE WHEN scope = 'cluster' THEN 'cluster' ELSE scope || ' ' || name END
$$;
