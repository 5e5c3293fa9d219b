-- Delete every graph checkpoint of a thread whose row is locked, with blobs and writes. Turns and what is staged for
-- them stay; without any of those the thread goes too.
CREATE FUNCTION @schema@.forget_graph_v1(p_tenant text, p_thread text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM @schema@.checkpoint_writes w
   WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND (w.ns < '~' OR w.ns >= E'\x7f');
  DELETE FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND (b.ns < '~' OR b.ns >= E'\x7f');
  DELETE FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND (c.ns < '~' OR c.ns >= E'\x7f');
  DELETE FROM @schema@.threads t
   WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND t.deleted_at IS NULL
     AND NOT EXISTS (SELECT FROM @schema@.checkpoints c WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread)
     AND NOT EXISTS (SELECT FROM @schema@.checkpoint_writes w WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread);
END $$
