-- Delete the blobs of one namespace that none of its checkpoints names any more. EXCEPT, since a join of the two sets
-- would be planned from guesses, and could go quadratic in the threads that need it most.
CREATE FUNCTION @schema@.sweep_graph_v1(p_tenant text, p_thread text, p_ns text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record;
BEGIN
  FOR g IN
    SELECT b.channel, b.version FROM @schema@.checkpoint_blobs b
     WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns
    EXCEPT
    SELECT v.key, v.value FROM @schema@.checkpoints c CROSS JOIN LATERAL json_each_text(c.checkpoint -> 'versions') AS v
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns
  LOOP
    DELETE FROM @schema@.checkpoint_blobs b
     WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns
       AND b.channel = g.channel AND b.version = g.version;
  END LOOP;
END $$
