-- Forget one thread's graph checkpoints, if the caller may see the thread.
CREATE FUNCTION @schema@.forget_graph_thread_v1(p_tenant text, p_thread text, p_owner text, p_now timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, false, p_now);
  IF r.thread_id IS NULL OR r.deleted_at IS NOT NULL THEN RETURN; END IF;
  PERFORM @schema@.forget_graph_v1(p_tenant, p_thread);
END $$
