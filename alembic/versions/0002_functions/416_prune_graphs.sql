-- Prune threads, or delete their graph checkpoints (p_delete); those that the caller does not see are left out.
-- Locked in the order of their ids.
CREATE FUNCTION @schema@.prune_graphs_v1(p_tenant text, p_threads text[], p_owner text, p_delete boolean, p_now timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
  v_thread text;
BEGIN
  FOR v_thread IN SELECT DISTINCT u.thread_id COLLATE "C" FROM unnest(p_threads) AS u(thread_id) ORDER BY 1 LOOP
    r := @schema@.open_thread_v1(p_tenant, v_thread, p_owner, false, p_now);
    CONTINUE WHEN r.thread_id IS NULL OR r.deleted_at IS NOT NULL;
    IF p_delete THEN PERFORM @schema@.forget_graph_v1(p_tenant, v_thread);
    ELSE PERFORM @schema@.prune_graph_v1(p_tenant, v_thread); END IF;
  END LOOP;
END $$
