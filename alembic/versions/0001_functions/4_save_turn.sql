-- Save one turn in one trip: lock the thread, then decide on what is true.
-- outcome: created | duplicate | key-reused | moved | no-parent | unknown | deleted
-- p_expected: the head the save was made on, null for an empty thread (or unknown, with p_parent_known false).
-- p_on_conflict, when that is not the head: append after it | reject | branch | decided (stores nothing).
-- p_channels, p_versions, p_values: the blobs, JSON text each. Arrays of text, since those alone the driver knows
-- without asking for types on every new connection.
-- p_staged, p_key: whose staged writes are folded: the key's, without a key all under the parent as sent.
CREATE FUNCTION @schema@.save_turn_v1(p_tenant text, p_thread text, p_owner text, p_identity bytea, p_digest bytea,
  p_expected text, p_parent_known boolean, p_on_conflict text, p_messages integer, p_tokens bigint, p_bytes bigint,
  p_payload json, p_metadata jsonb, p_staged text, p_key text, p_now timestamptz,
  p_channels text[], p_versions text[], p_values text[],
  OUT outcome text, OUT checkpoint_id text, OUT parent_id text, OUT "position" integer, OUT head text,
  OUT rebased boolean, OUT tokens bigint, OUT summaries jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  r @schema@.threads;
  v_moved boolean;
  v_parent text;
  v_digest bytea;
  v_step integer;       -- turns, messages and tokens of the branch before this turn
  v_position integer;
  v_tokens bigint;
  v_id text;
BEGIN
  "position" := 0; rebased := false; tokens := 0; summaries := '[]';
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, p_expected IS NULL, p_now);
  IF r.thread_id IS NULL THEN
    outcome := CASE WHEN p_on_conflict = 'decided' THEN 'moved' ELSE 'unknown' END;
    RETURN;
  END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;
  head := r.head; tokens := r.tokens; summaries := r.summaries;

  SELECT c.checkpoint_id, c.parent_id, c.digest INTO v_id, v_parent, v_digest FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.identity = p_identity;
  IF FOUND THEN
    outcome := CASE WHEN v_digest = p_digest THEN 'duplicate' ELSE 'key-reused' END;
    checkpoint_id := v_id; parent_id := v_parent; "position" := left(v_id, 10)::integer;
    RETURN;
  END IF;

  v_parent := r.head; v_step := r.turns; v_position := r.position; v_tokens := r.tokens;
  v_moved := p_parent_known AND p_expected IS DISTINCT FROM r.head;
  IF v_moved AND p_on_conflict = 'decided' THEN outcome := 'moved'; RETURN; END IF;
  IF v_moved THEN
    v_parent := p_expected; v_step := 0; v_position := 0; v_tokens := 0;
    IF p_expected IS NOT NULL THEN
      SELECT c.step + 1, left(c.checkpoint_id, 10)::integer, c.tokens INTO v_step, v_position, v_tokens
        FROM @schema@.checkpoints c
       WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = '~turns' AND c.checkpoint_id = p_expected;
      IF NOT FOUND THEN outcome := 'no-parent'; RETURN; END IF;
    END IF;
    IF p_on_conflict = 'reject' THEN outcome := 'moved'; RETURN; END IF;
    IF p_on_conflict = 'branch' THEN
      -- Only summaries of what the new branch shares may stand, by position and by parentage.
      SELECT coalesce(jsonb_agg(e.pointer ORDER BY e.n), '[]') INTO summaries
        FROM jsonb_array_elements(r.summaries) WITH ORDINALITY AS e(pointer, n)
       WHERE (e.pointer ->> 'position')::integer <= v_position
         AND @schema@.on_branch_v1(p_tenant, p_thread, v_parent, e.pointer ->> 'checkpoint_id');
    ELSE
      v_parent := r.head; v_step := r.turns; v_position := r.position; v_tokens := r.tokens;
      rebased := true;
    END IF;
  END IF;

  v_position := v_position + p_messages; v_tokens := v_tokens + p_tokens;
  v_id := lpad(v_position::text, 10, '0') || '-' || left(encode(p_identity, 'hex'), 22);
  INSERT INTO @schema@.checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, identity, digest, step, tokens,
                                    created_at, checkpoint, metadata)
  VALUES (p_tenant, p_thread, '~turns', v_id, v_parent, p_identity, p_digest, v_step, v_tokens,
          p_now, p_payload, p_metadata);
  IF cardinality(p_channels) > 0 THEN
    INSERT INTO @schema@.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
    SELECT p_tenant, p_thread, '~turns', b.channel, b.version, 'json', convert_to(b.value, 'UTF8'), p_now
      FROM unnest(p_channels, p_versions, p_values) AS b(channel, version, value)
    ON CONFLICT DO NOTHING;
  END IF;
  DELETE FROM @schema@.checkpoint_writes w
   WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns'
     AND CASE WHEN p_key IS NULL THEN w.checkpoint_id = coalesce(p_staged, '') ELSE w.key = p_key END;
  UPDATE @schema@.threads t
     SET head = v_id, position = v_position, turns = v_step + 1, tokens = v_tokens, bytes = r.bytes + p_bytes,
         summaries = save_turn_v1.summaries, updated_at = p_now
   WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
  outcome := 'created'; checkpoint_id := v_id; parent_id := v_parent; "position" := v_position; head := v_id;
  tokens := v_tokens;
END $$
