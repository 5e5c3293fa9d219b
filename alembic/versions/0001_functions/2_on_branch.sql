-- Is the turn p_id on the branch that ends in p_head? Ids sort by position, so an ancestor's is always smaller.
-- COLLATE "C": a variable has the database's collation, and most of those skip the dash.
CREATE FUNCTION @schema@.on_branch_v1(p_tenant text, p_thread text, p_head text, p_id text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_id text := p_head;
BEGIN
  WHILE v_id COLLATE "C" > p_id COLLATE "C" LOOP
    SELECT c.parent_id INTO v_id FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = '~turns' AND c.checkpoint_id = v_id;
  END LOOP;
  RETURN coalesce(v_id = p_id, false);
END $$
