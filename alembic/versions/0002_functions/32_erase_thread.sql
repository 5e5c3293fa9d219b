-- Delete a thread. A tombstone without content stays until p_until, so that a late retry resurrects nothing; with
-- p_reuse the id is free at once. outcome: erased (also a tombstone's) | unknown. epoch: under which summaries were
-- cached until now.
CREATE FUNCTION @schema@.erase_thread_v1(p_tenant text, p_thread text, p_owner text, p_reuse boolean,
  p_until timestamptz, p_now timestamptz, OUT outcome text, OUT epoch bigint) LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, false, p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  outcome := 'erased'; epoch := r.summary_epoch;
  PERFORM @schema@.erase_rows_v1(p_tenant, p_thread, p_reuse);
  IF p_reuse OR r.deleted_at IS NOT NULL THEN RETURN; END IF;
  UPDATE @schema@.threads t
     SET head = NULL, position = 0, turns = 0, tokens = 0, bytes = 0, title = NULL, metadata = '{}', forked_from = NULL,
         summaries = '[]', summary_epoch = t.summary_epoch + 1, lease_token = NULL, lease_until = NULL,
         updated_at = p_now, deleted_at = p_now, expires_at = p_until
   WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
END $$
