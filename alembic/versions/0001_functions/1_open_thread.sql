-- Take the thread's row lock, making the row where p_create says so and there is none.
-- An expired thread is none: its rows are cleared and the id starts anew. A foreign owner's is null, like none.
-- p_owner null: any owner's. The caller looks at deleted_at: a tombstone is returned as it is.
CREATE FUNCTION @schema@.open_thread_v1(p_tenant text, p_thread text, p_owner text, p_create boolean, p_now timestamptz)
RETURNS @schema@.threads LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
  v_found boolean;
BEGIN
  LOOP
    SELECT * INTO r FROM @schema@.threads t WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread FOR UPDATE;
    v_found := FOUND;
    IF v_found AND (r.expires_at IS NULL OR r.expires_at > p_now) THEN
      IF p_owner IS NULL OR r.owner_id = p_owner THEN RETURN r; END IF;
      RETURN NULL;
    END IF;
    IF NOT p_create THEN RETURN NULL; END IF;
    IF v_found THEN
      DELETE FROM @schema@.checkpoint_writes w WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread;
      DELETE FROM @schema@.checkpoint_blobs b WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread;
      DELETE FROM @schema@.checkpoints c WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread;
      DELETE FROM @schema@.threads t WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread;
    END IF;
    -- The epoch begins at the time, not at 0: a summary cached for the id's earlier life never fits this one.
    -- A row made by somebody else meanwhile is waited for here and found in the next round.
    INSERT INTO @schema@.threads (tenant_id, thread_id, owner_id, created_at, updated_at, summary_epoch)
    VALUES (p_tenant, p_thread, coalesce(p_owner, ''), p_now, p_now, extract(epoch FROM p_now)::bigint)
    ON CONFLICT (tenant_id, thread_id) DO NOTHING;
  END LOOP;
END $$
