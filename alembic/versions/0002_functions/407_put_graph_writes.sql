-- Store what a task of a graph wrote. outcome: stored | unknown | deleted
-- p_writes: [{idx, channel, type, first, size}], each idx once, slices of p_data. p_overwrite: else the first one stays.
CREATE FUNCTION @schema@.put_graph_writes_v1(p_tenant text, p_thread text, p_owner text, p_ns text, p_id text,
  p_task text, p_path text, p_writes json, p_data bytea, p_overwrite boolean, p_now timestamptz, OUT outcome text)
LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, true, p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;
  IF p_overwrite THEN
    DELETE FROM @schema@.checkpoint_writes w
     WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = p_ns AND w.checkpoint_id = p_id
       AND w.key = '' AND w.task_id = p_task
       AND w.idx IN (SELECT b.idx FROM json_to_recordset(p_writes) AS b(idx integer));
  END IF;
  INSERT INTO @schema@.checkpoint_writes (tenant_id, thread_id, ns, checkpoint_id, key, task_id, idx, task_path, channel,
                                          type, data, created_at)
  SELECT p_tenant, p_thread, p_ns, p_id, '', p_task, b.idx, p_path, b.channel, b.type,
         substring(p_data FROM b.first FOR b.size), p_now
    FROM json_to_recordset(p_writes) AS b(idx integer, channel text, type text, first integer, size integer)
  ON CONFLICT DO NOTHING;
  outcome := 'stored';
END $$
