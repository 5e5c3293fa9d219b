-- The ancestors that channels are rebuilt from, nearest first: back to the one that holds a value for the last of them.
-- wanted: the channels whose writes there count, seeded: those of them that it holds a value for.
-- p_channels null: all ancestors. A parent that is gone ends the walk, and so does one that was there before.
CREATE FUNCTION @schema@.graph_chain_v1(p_tenant text, p_thread text, p_ns text, p_id text, p_channels text[])
RETURNS TABLE (depth integer, checkpoint_id text, wanted text[], seeded text[], payload json)
LANGUAGE plpgsql STABLE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  v_next text;
  v_least text := p_id;
  v_seen text[] := ARRAY[p_id];
  v_values json;
  v_stored json;
BEGIN
  depth := 0; wanted := p_channels;
  SELECT c.parent_id INTO checkpoint_id FROM @schema@.checkpoints c
   WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND c.checkpoint_id = p_id;
  WHILE checkpoint_id IS NOT NULL AND (wanted IS NULL OR cardinality(wanted) > 0) LOOP
    -- Ids grow with time, so a sound chain never needs the search.
    EXIT WHEN checkpoint_id >= v_least AND checkpoint_id = ANY (v_seen);
    SELECT c.parent_id, c.checkpoint INTO v_next, payload FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = p_ns AND c.checkpoint_id = graph_chain_v1.checkpoint_id;
    EXIT WHEN NOT FOUND;
    depth := depth + 1;
    v_values := payload -> 'checkpoint' -> 'channel_values'; v_stored := payload -> 'versions';
    seeded := ARRAY(SELECT w FROM unnest(wanted) AS w WHERE v_stored -> w IS NOT NULL OR v_values -> w IS NOT NULL);
    RETURN NEXT;
    v_least := least(v_least, checkpoint_id);
    v_seen := v_seen || checkpoint_id;
    wanted := ARRAY(SELECT w FROM unnest(wanted) AS w WHERE w <> ALL (seeded));
    IF p_channels IS NULL THEN wanted := NULL; END IF;
    checkpoint_id := v_next;
  END LOOP;
END $$
