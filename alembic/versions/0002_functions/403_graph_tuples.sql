-- Graph checkpoints with their blobs and writes, in the order of the arrays (n counts them).
-- At most p_limit, and none more once p_bytes of blobs and writes have been read. What is not there is left out.
-- kind: checkpoint | blob | write; rows of one n follow each other, writes in the order LangGraph applies them.
-- Each row is looked up by its whole key: a join would be planned from how many rows a thread has.
CREATE FUNCTION @schema@.graph_tuples_v1(p_tenant text, p_threads text[], p_spaces text[], p_ids text[], p_limit integer,
  p_bytes bigint)
RETURNS TABLE (n integer, kind text, thread_id text, ns text, checkpoint_id text, parent_id text, channel text,
  version text, task_id text, task_path text, idx integer, type text, data bytea, payload json, metadata jsonb)
LANGUAGE plpgsql STABLE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  v_read bigint := 0;
  v_versions json;
BEGIN
  FOR i IN 1 .. least(p_limit, coalesce(cardinality(p_ids), 0)) LOOP
    EXIT WHEN v_read >= p_bytes;
    n := i; thread_id := p_threads[i]; ns := p_spaces[i]; checkpoint_id := p_ids[i]; data := NULL;
    SELECT c.parent_id, c.checkpoint, c.metadata INTO parent_id, payload, metadata FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_threads[i] AND c.ns = p_spaces[i] AND c.checkpoint_id = p_ids[i];
    CONTINUE WHEN NOT FOUND;
    kind := 'checkpoint';
    RETURN NEXT;
    v_versions := payload -> 'versions';
    payload := NULL; metadata := NULL;

    kind := 'blob';
    FOR channel, version, type, data IN
      SELECT v.key, v.value, b.type, b.data
        FROM json_each_text(v_versions) AS v
       CROSS JOIN LATERAL (
             SELECT b.type, b.data FROM @schema@.checkpoint_blobs b
              WHERE b.tenant_id = p_tenant AND b.thread_id = p_threads[i] AND b.ns = p_spaces[i]
                AND b.channel = v.key AND b.version = v.value LIMIT 1) AS b
    LOOP
      v_read := v_read + octet_length(data);
      RETURN NEXT;
    END LOOP;

    kind := 'write'; version := NULL;
    FOR channel, task_id, task_path, idx, type, data IN
      SELECT w.channel, w.task_id, w.task_path, w.idx, w.type, w.data FROM @schema@.checkpoint_writes w
       WHERE w.tenant_id = p_tenant AND w.thread_id = p_threads[i] AND w.ns = p_spaces[i] AND w.checkpoint_id = p_ids[i]
       ORDER BY w.task_path COLLATE "C", w.task_id, w.idx
    LOOP
      v_read := v_read + octet_length(data);
      RETURN NEXT;
    END LOOP;
  END LOOP;
END $$
