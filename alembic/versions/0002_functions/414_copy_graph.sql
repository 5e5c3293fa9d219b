-- Copy every graph checkpoint of a thread to another, with blobs, writes and parents. outcome: copied | unknown |
-- foreign (the target is another owner's) | deleted | taken (the target has checkpoints that the source has not)
-- The target is the source's owner's. Again is a no-op while the target is nothing but the copy.
CREATE FUNCTION @schema@.copy_graph_v1(p_tenant text, p_source text, p_target text, p_owner text, p_now timestamptz,
  OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE
  s @schema@.threads;
  t @schema@.threads;
BEGIN
  -- Both rows are locked in the order of their ids: two copies the other way round never wait for each other.
  IF p_target < p_source COLLATE "C" THEN t := @schema@.open_thread_v1(p_tenant, p_target, p_owner, false, p_now); END IF;
  s := @schema@.open_thread_v1(p_tenant, p_source, p_owner, false, p_now);
  IF s.thread_id IS NULL OR s.deleted_at IS NOT NULL THEN outcome := 'unknown'; RETURN; END IF;
  PERFORM FROM @schema@.checkpoints c
    WHERE c.tenant_id = p_tenant AND c.thread_id = p_source AND (c.ns < '~' OR c.ns >= E'\x7f');
  IF NOT FOUND THEN outcome := 'copied'; RETURN; END IF;
  IF t.thread_id IS NULL THEN t := @schema@.open_thread_v1(p_tenant, p_target, s.owner_id, true, p_now); END IF;
  IF t.thread_id IS NULL THEN outcome := 'foreign'; RETURN; END IF;
  IF t.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;
  PERFORM c.ns, c.checkpoint_id FROM @schema@.checkpoints c
    WHERE c.tenant_id = p_tenant AND c.thread_id = p_target AND (c.ns < '~' OR c.ns >= E'\x7f')
   EXCEPT
   SELECT c.ns, c.checkpoint_id FROM @schema@.checkpoints c
    WHERE c.tenant_id = p_tenant AND c.thread_id = p_source AND (c.ns < '~' OR c.ns >= E'\x7f')
    LIMIT 1;
  IF FOUND THEN outcome := 'taken'; RETURN; END IF;

  INSERT INTO @schema@.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
  SELECT b.tenant_id, p_target, b.ns, b.channel, b.version, b.type, b.data, b.created_at FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_source AND (b.ns < '~' OR b.ns >= E'\x7f')
  ON CONFLICT DO NOTHING;
  INSERT INTO @schema@.checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, created_at, checkpoint, metadata)
  SELECT c.tenant_id, p_target, c.ns, c.checkpoint_id, c.parent_id, c.created_at, c.checkpoint, c.metadata
    FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_source AND (c.ns < '~' OR c.ns >= E'\x7f')
  ON CONFLICT DO NOTHING;
  INSERT INTO @schema@.checkpoint_writes (tenant_id, thread_id, ns, checkpoint_id, key, task_id, idx, task_path, channel,
                                          type, data, created_at)
  SELECT w.tenant_id, p_target, w.ns, w.checkpoint_id, w.key, w.task_id, w.idx, w.task_path, w.channel, w.type, w.data,
         w.created_at
    FROM @schema@.checkpoint_writes w
   WHERE w.tenant_id = p_tenant AND w.thread_id = p_source AND (w.ns < '~' OR w.ns >= E'\x7f')
  ON CONFLICT DO NOTHING;
  outcome := 'copied';
END $$
