-- Remove everything a thread holds, turns and graph checkpoints alike; with p_row its registry row too. The caller has
-- locked that row.
CREATE FUNCTION @schema@.erase_rows_v1(p_tenant text, p_thread text, p_row boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM @schema@.checkpoint_writes w WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread;
  DELETE FROM @schema@.checkpoint_blobs b WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread;
  DELETE FROM @schema@.checkpoints c WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread;
  IF p_row THEN
    DELETE FROM @schema@.threads t WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
  END IF;
END $$
