-- Load in one trip and one snapshot: the registry row (as JSON), the newest turns up to p_head (null: the head),
-- the writes staged under it and, for a load of the head, the newest tasks staged under another parent (kind stale,
-- without their values). No row: no such thread for this caller.
-- raw: a turn's identity, a write's data. Turns of other branches inside the range come along; the client drops
-- them by following parents.
CREATE FUNCTION @schema@.load_recent_v2(p_tenant text, p_thread text, p_owner text, p_head text, p_window integer,
  p_stride integer, p_now timestamptz)
RETURNS TABLE (kind text, checkpoint_id text, parent_id text, step integer, tokens bigint, created_at timestamptz,
  raw bytea, payload json, metadata jsonb) LANGUAGE plpgsql STABLE ROWS 40 AS $$
#variable_conflict use_column
DECLARE
  r @schema@.threads;
  v_head text;
  v_end bigint;       -- the position of the head asked for
  v_grid bigint;      -- messages before the window, on the message grid
  v_after bigint;     -- read the turns that hold any position greater than this
  v_within bigint;    -- the newest summary pointer in the grid's own stride
  v_below bigint;     -- the newest summary pointer before the grid
BEGIN
  SELECT * INTO r FROM @schema@.threads t
   WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread AND (p_owner IS NULL OR t.owner_id = p_owner)
     AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > p_now);
  IF NOT FOUND THEN RETURN; END IF;
  kind := 'registry';
  payload := row_to_json(r);
  RETURN NEXT;
  v_head := coalesce(p_head, r.head, '');

  IF v_head ~ '^[0-9]{10}-' THEN
    v_end := left(v_head, 10)::bigint;
    v_grid := p_stride * greatest(0, (v_end - p_window + p_stride - 1) / p_stride);
    IF r.summaries <> '[]' THEN
      SELECT max(e.position) FILTER (WHERE e.position >= v_grid AND e.position < v_grid + p_stride),
             max(e.position) FILTER (WHERE e.position < v_grid)
        INTO v_within, v_below
        FROM jsonb_to_recordset(r.summaries) AS e(position bigint) WHERE e.position <= v_end;
    END IF;
    v_after := CASE
      WHEN v_within IS NOT NULL THEN v_grid
      WHEN v_below >= v_grid - 2 * p_stride THEN v_below
      WHEN v_below IS NULL AND v_grid <= 2 * p_stride THEN 0
      ELSE v_grid END;
    -- Ids sort by their turn's last position, so this also takes in the turn that holds the first one wanted.
    RETURN QUERY SELECT 'turn', c.checkpoint_id, c.parent_id, c.step, c.tokens, c.created_at, c.identity, c.checkpoint,
                        c.metadata
                   FROM @schema@.checkpoints c
                  WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = '~turns'
                    AND c.checkpoint_id >= lpad((v_after + 1)::text, 10, '0') AND c.checkpoint_id <= v_head
                  ORDER BY c.checkpoint_id;
  END IF;

  RETURN QUERY SELECT 'write', w.key, w.task_id, w.idx, NULL::bigint, w.created_at, w.data,
                      json_build_object('channel', w.channel), NULL::jsonb
                 FROM @schema@.checkpoint_writes w
                WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns' AND w.checkpoint_id = v_head
                ORDER BY w.key, w.task_path, w.task_id, w.idx;

  IF p_head IS NULL THEN
    -- Backwards along the key: the newest parents first, and the read ends with the hundredth task.
    RETURN QUERY SELECT 'stale', s.key, s.task_id, s.idx, NULL::bigint, s.created_at, NULL::bytea,
                        json_build_object('parent', s.checkpoint_id), NULL::jsonb
                   FROM (SELECT w.* FROM @schema@.checkpoint_writes w
                          WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns'
                            AND w.checkpoint_id <> v_head AND w.idx = 0
                          ORDER BY w.checkpoint_id DESC, w.key DESC, w.task_id DESC LIMIT 100) s
                  ORDER BY s.checkpoint_id, s.key, s.task_path, s.task_id;
  END IF;
END $$
