-- Discard what is staged for turns in flight: of one key, or (p_key null) all of the thread.
-- outcome: done | unknown | deleted
CREATE FUNCTION @schema@.discard_writes_v1(p_tenant text, p_thread text, p_owner text, p_key text, p_now timestamptz,
  OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, false, p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;
  DELETE FROM @schema@.checkpoint_writes w
   WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns' AND (p_key IS NULL OR w.key = p_key);
  outcome := 'done';
END $$
