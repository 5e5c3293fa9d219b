-- Delete the checkpoints that runs made, with their writes and the blobs that nothing else names, in all threads that
-- the caller may see. Threads are locked in the order of their ids, so that two calls never wait for each other.
CREATE FUNCTION @schema@.forget_graph_runs_v1(p_tenant text, p_owner text, p_runs text[], p_now timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
  v_thread text;
  v_threads text[] := '{}';
  v_run text;
  g record;
  v_space text;
  v_spaces text[];
BEGIN
  FOREACH v_run IN ARRAY p_runs LOOP
    v_threads := v_threads || ARRAY(
      SELECT DISTINCT c.thread_id FROM @schema@.checkpoints c
       WHERE c.tenant_id = p_tenant AND (c.ns < '~' OR c.ns >= E'\x7f')
         AND c.metadata @> jsonb_build_object('run_id', v_run));
  END LOOP;
  FOR v_thread IN SELECT DISTINCT u.thread_id COLLATE "C" FROM unnest(v_threads) AS u(thread_id) ORDER BY 1 LOOP
    r := @schema@.open_thread_v1(p_tenant, v_thread, p_owner, false, p_now);
    CONTINUE WHEN r.thread_id IS NULL OR r.deleted_at IS NOT NULL;
    v_spaces := '{}';
    FOR g IN
      DELETE FROM @schema@.checkpoints c
       WHERE c.tenant_id = p_tenant AND c.thread_id = v_thread AND (c.ns < '~' OR c.ns >= E'\x7f')
         AND c.metadata ->> 'run_id' = ANY (p_runs) AND jsonb_typeof(c.metadata -> 'run_id') = 'string'
      RETURNING c.ns, c.checkpoint_id
    LOOP
      DELETE FROM @schema@.checkpoint_writes w
       WHERE w.tenant_id = p_tenant AND w.thread_id = v_thread AND w.ns = g.ns AND w.checkpoint_id = g.checkpoint_id;
      IF g.ns <> ALL (v_spaces) THEN v_spaces := v_spaces || g.ns; END IF;
    END LOOP;
    FOREACH v_space IN ARRAY v_spaces LOOP
      PERFORM @schema@.sweep_graph_v1(p_tenant, v_thread, v_space);
    END LOOP;
    PERFORM FROM @schema@.checkpoints c
      WHERE c.tenant_id = p_tenant AND c.thread_id = v_thread AND (c.ns < '~' OR c.ns >= E'\x7f');
    IF NOT FOUND THEN PERFORM @schema@.forget_graph_v1(p_tenant, v_thread); END IF;
  END LOOP;
END $$
