-- One value of a graph's channel, by its stored version, else by the client's: that of p_id, or the only one.
-- kind: thread | ambiguous (several values, and p_id does not say which) | blob. No row: no such thread for this caller.
CREATE FUNCTION @schema@.read_graph_blob_v1(p_tenant text, p_thread text, p_owner text, p_ns text, p_channel text,
  p_version text, p_id text, p_now timestamptz)
RETURNS TABLE (kind text, version text, type text, data bytea) LANGUAGE plpgsql STABLE ROWS 2 AS $$
#variable_conflict use_column
DECLARE
  v_row json;
BEGIN
  PERFORM FROM @schema@.threads t
    WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND (p_owner IS NULL OR t.owner_id = p_owner)
      AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > p_now);
  IF NOT FOUND THEN RETURN; END IF;
  kind := 'thread';
  RETURN NEXT;
  kind := 'blob';
  SELECT b.version, b.type, b.data INTO version, type, data FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns AND b.channel = p_channel
     AND b.version = p_version;
  IF FOUND THEN RETURN NEXT; RETURN; END IF;
  IF p_id IS NULL THEN
    version := @schema@.lone_blob_v1(p_tenant, p_thread, p_ns, p_channel, p_version);
    IF version = '' THEN kind := 'ambiguous'; RETURN NEXT; RETURN; END IF;
  ELSE
    SELECT c.checkpoint INTO v_row FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND c.checkpoint_id = p_id
       AND c.checkpoint -> 'checkpoint' -> 'channel_versions' ->> p_channel = p_version;
    version := v_row -> 'versions' ->> p_channel;
  END IF;
  SELECT b.type, b.data INTO type, data FROM @schema@.checkpoint_blobs b
   WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns AND b.channel = p_channel
     AND b.version = read_graph_blob_v1.version;
  IF FOUND THEN RETURN NEXT; END IF;
END $$
