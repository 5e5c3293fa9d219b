-- One graph checkpoint, the latest for p_id null, in one trip and one snapshot. No row: no such thread for this caller;
-- a row of kind thread alone: the thread holds no such checkpoint.
CREATE FUNCTION @schema@.read_graph_v1(p_tenant text, p_thread text, p_owner text, p_ns text, p_id text, p_now timestamptz)
RETURNS TABLE (n integer, kind text, thread_id text, ns text, checkpoint_id text, parent_id text, channel text,
  version text, task_id text, task_path text, idx integer, type text, data bytea, payload json, metadata jsonb)
LANGUAGE plpgsql STABLE ROWS 20 AS $$
#variable_conflict use_column
DECLARE
  v_id text := p_id;
BEGIN
  PERFORM FROM @schema@.threads t
    WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND (p_owner IS NULL OR t.owner_id = p_owner)
      AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > p_now);
  IF NOT FOUND THEN RETURN; END IF;
  kind := 'thread';
  RETURN NEXT;
  IF v_id IS NULL THEN
    SELECT c.checkpoint_id INTO v_id FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns
     ORDER BY c.checkpoint_id DESC LIMIT 1;
  END IF;
  RETURN QUERY SELECT * FROM @schema@.graph_tuples_v1(p_tenant, ARRAY[p_thread], ARRAY[p_ns], ARRAY[v_id], 1, 1);
END $$
