-- Keep each namespace's latest checkpoint of one locked thread, and what its delta channels are rebuilt from: every
-- ancestor back to the one that holds a value for the last of them, with its writes.
-- A channel is one when metadata counted its updates; where LangGraph.js left its mark no counts say which ones are,
-- and all ancestors stay. Writes go with their checkpoint: those of one that is still to come stay.
CREATE FUNCTION @schema@.prune_graph_v1(p_tenant text, p_thread text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_space text;
  v_head text;
  v_row json;
  v_deltas text[];
  v_all boolean;
  v_kept text[];
  v_gone text;
BEGIN
  FOR v_space IN SELECT DISTINCT c.ns FROM @schema@.checkpoints c
                  WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND (c.ns < '~' OR c.ns >= E'\x7f') LOOP
    SELECT c.checkpoint_id, c.checkpoint INTO v_head, v_row FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = v_space
     ORDER BY c.checkpoint_id DESC LIMIT 1;
    SELECT coalesce(bool_or(c.metadata ? 'delta_writes_versioned'), false),
           coalesce(array_agg(DISTINCT d.channel) FILTER (WHERE d.channel IS NOT NULL), '{}')
      INTO v_all, v_deltas
      FROM @schema@.checkpoints c
      LEFT JOIN LATERAL jsonb_object_keys(
           CASE jsonb_typeof(c.metadata -> 'counters_since_delta_snapshot') WHEN 'object'
           THEN c.metadata -> 'counters_since_delta_snapshot' ELSE '{}' END) AS d(channel) ON true
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = v_space;
    -- A channel without a version was never written; one with a value in the latest needs no ancestor.
    v_deltas := ARRAY(SELECT d FROM unnest(v_deltas) AS d
                       WHERE v_row -> 'checkpoint' -> 'channel_versions' -> d IS NOT NULL
                         AND v_row -> 'versions' -> d IS NULL
                         AND v_row -> 'checkpoint' -> 'channel_values' -> d IS NULL);
    SELECT array_agg(k.checkpoint_id) INTO v_kept
      FROM @schema@.graph_chain_v1(p_tenant, p_thread, v_space, v_head, CASE WHEN v_all THEN NULL ELSE v_deltas END) AS k;
    v_kept := v_kept || v_head;

    -- Row by row, since a join with what was deleted would be planned for a handful and go quadratic.
    FOR v_gone IN
      DELETE FROM @schema@.checkpoints c
       WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = v_space
         AND c.checkpoint_id NOT IN (SELECT k FROM unnest(v_kept) AS k)
      RETURNING c.checkpoint_id
    LOOP
      DELETE FROM @schema@.checkpoint_writes w
       WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = v_space AND w.checkpoint_id = v_gone;
    END LOOP;
    UPDATE @schema@.checkpoints c SET parent_id = NULL
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = v_space
       AND c.parent_id NOT IN (SELECT k FROM unnest(v_kept) AS k);
    PERFORM @schema@.sweep_graph_v1(p_tenant, p_thread, v_space);
  END LOOP;
END $$
