-- Store a graph checkpoint and its blobs in one trip, under the thread's row lock.
-- outcome: stored | unknown | deleted | moved (head: the latest) | ambiguous (channel: the one with several values)
-- p_on_top: the parent is whatever is the latest. p_reject: store nothing unless p_parent is the latest.
-- p_new: channels whose value is this put's or none. p_blobs: [{channel, version, type, first, size}], slices of p_data.
-- What is stored: {"versions": {channel: stored version}, "checkpoint": as sent}.
CREATE FUNCTION @schema@.put_graph_v1(p_tenant text, p_thread text, p_owner text, p_ns text, p_id text, p_parent text,
  p_on_top boolean, p_reject boolean, p_checkpoint json, p_new text[], p_blobs json, p_data bytea, p_metadata jsonb,
  p_now timestamptz, OUT outcome text, OUT head text, OUT channel text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  r @schema@.threads;
  v_parent text := p_parent;
  v_again boolean;          -- the id is stored already: this put takes its place
  v_known boolean;          -- the parent is stored
  v_row json;
  v_own_versions json;      -- of the same id as stored before: what its clients call them, and as stored
  v_own_stored json;
  v_versions json;          -- of the parent
  v_stored json;
  v_own_parent text;
  v_map jsonb;
BEGIN
  -- A put that must follow something opens no thread, so that a refused one leaves nothing behind.
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, NOT (p_reject AND p_parent IS NOT NULL), p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;

  SELECT c.parent_id, c.checkpoint INTO v_own_parent, v_row FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND c.checkpoint_id = p_id;
  v_again := FOUND;
  v_own_versions := v_row -> 'checkpoint' -> 'channel_versions'; v_own_stored := v_row -> 'versions';
  IF p_on_top OR p_reject THEN
    SELECT c.checkpoint_id INTO head FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns
     ORDER BY c.checkpoint_id DESC LIMIT 1;
    IF p_on_top THEN
      v_parent := CASE WHEN v_again THEN v_own_parent ELSE head END;
    ELSIF head IS DISTINCT FROM p_parent AND (NOT v_again OR v_own_parent IS DISTINCT FROM p_parent) THEN
      outcome := 'moved';
      RETURN;
    END IF;
  END IF;

  SELECT c.checkpoint INTO v_row FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND c.checkpoint_id = v_parent;
  v_known := FOUND;
  v_versions := v_row -> 'checkpoint' -> 'channel_versions'; v_stored := v_row -> 'versions';
  -- A count alone does not say whose value it is: two branches reach 7. So a value is taken over from where this
  -- checkpoint came from, and looked for elsewhere only when that is not there to ask.
  SELECT coalesce(jsonb_object_agg(m.channel, m.version) FILTER (WHERE m.version IS NOT NULL), '{}'),
         min(m.channel) FILTER (WHERE m.version = '')
    INTO v_map, channel
    FROM (SELECT b.channel, b.version FROM json_to_recordset(p_blobs) AS b(channel text, version text)
           UNION ALL
          SELECT v.key, CASE
                 WHEN v_own_versions ->> v.key = v.value THEN v_own_stored ->> v.key
                 WHEN v_versions ->> v.key = v.value THEN v_stored ->> v.key
                 WHEN NOT v_known THEN @schema@.lone_blob_v1(p_tenant, p_thread, p_ns, v.key, v.value) END
            FROM json_each_text(p_checkpoint -> 'channel_versions') AS v
           WHERE v.key <> ALL (p_new)) AS m;
  IF channel IS NOT NULL THEN outcome := 'ambiguous'; RETURN; END IF;

  INSERT INTO @schema@.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
  SELECT p_tenant, p_thread, p_ns, b.channel, b.version, b.type, substring(p_data FROM b.first FOR b.size), p_now
    FROM json_to_recordset(p_blobs) AS b(channel text, version text, type text, first integer, size integer)
  ON CONFLICT DO NOTHING;
  INSERT INTO @schema@.checkpoints AS c (tenant_id, thread_id, ns, checkpoint_id, parent_id, created_at, checkpoint, metadata)
  VALUES (p_tenant, p_thread, p_ns, p_id, v_parent, p_now,
          json_build_object('versions', v_map, 'checkpoint', p_checkpoint), p_metadata)
  ON CONFLICT (tenant_id, thread_id, ns, checkpoint_id) DO UPDATE
    SET parent_id = excluded.parent_id, checkpoint = excluded.checkpoint, metadata = excluded.metadata;
  UPDATE @schema@.threads t SET updated_at = p_now WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
  outcome := 'stored';
END $$
