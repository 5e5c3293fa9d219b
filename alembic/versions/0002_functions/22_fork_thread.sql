-- Copy a turn (p_id, null: the head) and its ancestors to a thread of their own, with blobs and summaries.
-- outcome: created | same (the target is this fork already) | exists | unknown (the source) | no-checkpoint |
--   foreign (the target is another owner's) | deleted (the target)
-- registry: the target's row as JSON. Rows are copied as they are, so ids stay: of turns, of messages, of channels.
CREATE FUNCTION @schema@.fork_thread_v1(p_tenant text, p_source text, p_owner text, p_id text, p_target text,
  p_now timestamptz, OUT outcome text, OUT registry json) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  s @schema@.threads;
  t @schema@.threads;
  a record;             -- an ancestor
  v_id text;            -- the turn that is forked
  v_turns integer;
  v_tokens bigint;
  v_next text;
  v_chain text[] := '{}';
  v_epoch bigint := extract(epoch FROM p_now)::bigint;
  v_bytes bigint;
  v_blob_bytes bigint;
BEGIN
  t := @schema@.open_thread_v1(p_tenant, p_target, p_owner, false, p_now);
  IF t.thread_id IS NULL THEN
    s := @schema@.open_thread_v1(p_tenant, p_source, p_owner, false, p_now);
    IF s.thread_id IS NULL OR s.deleted_at IS NOT NULL THEN outcome := 'unknown'; RETURN; END IF;
    v_id := coalesce(p_id, s.head);
    SELECT c.step + 1, c.tokens INTO v_turns, v_tokens FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_source AND c.ns = '~turns' AND c.checkpoint_id = v_id;
    IF NOT FOUND THEN outcome := 'no-checkpoint'; RETURN; END IF;

    PERFORM FROM @schema@.threads t
      WHERE t.tenant_id = p_tenant AND t.thread_id = p_target AND t.expires_at <= p_now FOR UPDATE;
    IF FOUND THEN PERFORM @schema@.erase_rows_v1(p_tenant, p_target, true); END IF;
    INSERT INTO @schema@.threads (tenant_id, thread_id, owner_id, head, position, turns, tokens, title, metadata,
                                  created_at, updated_at, forked_from, summary_epoch)
    VALUES (p_tenant, p_target, s.owner_id, v_id, left(v_id, 10)::integer, v_turns, v_tokens, s.title, s.metadata,
            p_now, p_now, v_id || ' ' || p_source, v_epoch)
    ON CONFLICT (tenant_id, thread_id) DO NOTHING;
    IF NOT FOUND THEN
      -- Somebody else's, or made since the first look.
      t := @schema@.open_thread_v1(p_tenant, p_target, p_owner, false, p_now);
      IF t.thread_id IS NULL THEN outcome := 'foreign'; RETURN; END IF;
    END IF;
  END IF;
  IF t.thread_id IS NOT NULL THEN
    outcome := CASE
      WHEN t.deleted_at IS NOT NULL THEN 'deleted'
      WHEN substr(t.forked_from, 35) = p_source AND (p_id IS NULL OR left(t.forked_from, 33) = p_id) THEN 'same'
      ELSE 'exists' END;
    IF outcome = 'same' THEN registry := row_to_json(t); END IF;
    RETURN;
  END IF;

  -- Ids sort by position, so every ancestor stands behind its child in one range read backwards; no recursion.
  v_next := v_id;
  FOR a IN SELECT c.checkpoint_id, c.parent_id FROM @schema@.checkpoints c
            WHERE c.tenant_id = p_tenant AND c.thread_id = p_source AND c.ns = '~turns' AND c.checkpoint_id <= v_id
            ORDER BY c.checkpoint_id DESC LOOP
    EXIT WHEN v_next IS NULL;
    CONTINUE WHEN a.checkpoint_id <> v_next;
    v_chain := v_chain || a.checkpoint_id;
    v_next := a.parent_id;
  END LOOP;

  INSERT INTO @schema@.checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, identity, digest, step, tokens,
                                    created_at, checkpoint, metadata)
  SELECT p_tenant, p_target, '~turns', c.checkpoint_id, c.parent_id, c.identity, c.digest, c.step, c.tokens,
         c.created_at, c.checkpoint, c.metadata
    FROM unnest(v_chain) AS k(id)
    JOIN @schema@.checkpoints c
      ON c.tenant_id = p_tenant AND c.thread_id = p_source AND c.ns = '~turns' AND c.checkpoint_id = k.id;

  -- A message's blobs stand in channels that begin with its id, which comes of the turn's identity and its place there
  -- (app.core.digest.message_id). The payload is not asked: PostgreSQL cannot take json apart that holds \u0000.
  INSERT INTO @schema@.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
  SELECT p_tenant, p_target, '~turns', b.channel, b.version, b.type, b.data, b.created_at
    FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_source AND b.ns = '~turns' AND left(b.channel, 28) IN (
         SELECT 'msg_' || left(encode(sha256(c.identity || int4send(m.index)), 'hex'), 24)
           FROM @schema@.checkpoints c
          CROSS JOIN LATERAL generate_series(
                0, left(c.checkpoint_id, 10)::integer - coalesce(left(c.parent_id, 10)::integer, 0) - 1) AS m(index)
          WHERE c.tenant_id = p_tenant AND c.thread_id = p_target AND c.ns = '~turns');

  SELECT coalesce(jsonb_agg(e.pointer ORDER BY e.n), '[]') INTO t.summaries
    FROM jsonb_array_elements(s.summaries) WITH ORDINALITY AS e(pointer, n)
   WHERE (e.pointer ->> 'position')::integer <= left(v_id, 10)::integer
     AND e.pointer ->> 'checkpoint_id' = ANY (v_chain);
  -- The version names the epoch, and the target has its own.
  INSERT INTO @schema@.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
  SELECT p_tenant, p_target, '~turns', b.channel, e.boundary || v_epoch, b.type, b.data, b.created_at
    FROM (SELECT (p.pointer ->> 'checkpoint_id') || '.' || (p.pointer ->> 'position') || '.'
            FROM jsonb_array_elements(t.summaries) AS p(pointer)) AS e(boundary)
    JOIN @schema@.checkpoint_blobs b
      ON b.tenant_id = p_tenant AND b.thread_id = p_source AND b.ns = '~turns' AND b.channel = '~summary'
     AND b.version = e.boundary || s.summary_epoch;

  SELECT sum(octet_length(c.checkpoint::text)) INTO v_bytes FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_target AND c.ns = '~turns';
  SELECT coalesce(sum(octet_length(b.data)), 0) INTO v_blob_bytes FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_target AND b.ns = '~turns' AND b.channel <> '~summary';
  UPDATE @schema@.threads u SET bytes = v_bytes + v_blob_bytes, summaries = t.summaries
   WHERE u.tenant_id = p_tenant AND u.thread_id = p_target
  RETURNING * INTO t;
  registry := row_to_json(t);
  outcome := 'created';
END $$
