-- What channels are rebuilt from at a checkpoint (p_id null: the latest), in one trip and one snapshot.
-- No row: no such thread for this caller; a row of kind thread alone: no such checkpoint.
-- kind: thread | checkpoint | write | blob | inline (payload: the value's JSON). depth: ancestors between, from 1.
CREATE FUNCTION @schema@.delta_history_v1(p_tenant text, p_thread text, p_owner text, p_ns text, p_id text,
  p_channels text[], p_now timestamptz)
RETURNS TABLE (depth integer, kind text, channel text, task_id text, task_path text, idx integer, type text, data bytea,
  payload json) LANGUAGE plpgsql STABLE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  s record;
  v_id text := p_id;
BEGIN
  PERFORM FROM @schema@.threads t
    WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND (p_owner IS NULL OR t.owner_id = p_owner)
      AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > p_now);
  IF NOT FOUND THEN RETURN; END IF;
  kind := 'thread'; depth := 0;
  RETURN NEXT;
  SELECT c.checkpoint_id INTO v_id FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND (p_id IS NULL OR c.checkpoint_id = p_id)
   ORDER BY c.checkpoint_id DESC LIMIT 1;
  IF NOT FOUND THEN RETURN; END IF;
  kind := 'checkpoint';
  RETURN NEXT;
  FOR s IN SELECT * FROM @schema@.graph_chain_v1(p_tenant, p_thread, p_ns, v_id, p_channels) LOOP
    RETURN QUERY
    SELECT s.depth, 'write', w.channel, w.task_id, w.task_path, w.idx, w.type, w.data, NULL::json
      FROM @schema@.checkpoint_writes w
     WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = p_ns AND w.checkpoint_id = s.checkpoint_id
       AND w.channel = ANY (s.wanted)
     ORDER BY w.task_path COLLATE "C", w.task_id, w.idx;
    -- A blob goes first: beside a snapshot stands a mark in place of the value.
    RETURN QUERY
    SELECT s.depth, CASE WHEN b.type IS NULL THEN 'inline' ELSE 'blob' END, c.channel, NULL::text, NULL::text,
           NULL::integer, b.type, b.data,
           CASE WHEN b.type IS NULL THEN s.payload -> 'checkpoint' -> 'channel_values' -> c.channel END
      FROM unnest(s.seeded) AS c(channel)
      LEFT JOIN LATERAL (
           SELECT b.type, b.data FROM @schema@.checkpoint_blobs b
            WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns AND b.channel = c.channel
              AND b.version = s.payload -> 'versions' ->> c.channel LIMIT 1) AS b ON true;
  END LOOP;
END $$
