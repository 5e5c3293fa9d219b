-- Choose the head of a thread: a turn it holds, null for before the first one.
-- outcome: done | moved (p_expected is not the head) | no-checkpoint | unknown | deleted
-- registry: the row as it then is, as JSON. The same head again is done whatever is expected: a retry's answer.
CREATE FUNCTION @schema@.move_head_v1(p_tenant text, p_thread text, p_owner text, p_id text, p_expected_known boolean,
  p_expected text, p_now timestamptz, OUT outcome text, OUT registry json) LANGUAGE plpgsql AS $$
DECLARE
  r @schema@.threads;
  v_turns integer := 0;
  v_position integer := 0;
  v_tokens bigint := 0;
  v_summaries jsonb;
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, false, p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;
  registry := row_to_json(r);
  IF p_id IS NOT DISTINCT FROM r.head THEN outcome := 'done'; RETURN; END IF;
  IF p_id IS NOT NULL THEN
    SELECT c.step + 1, left(c.checkpoint_id, 10)::integer, c.tokens INTO v_turns, v_position, v_tokens
      FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = '~turns' AND c.checkpoint_id = p_id;
    IF NOT FOUND THEN outcome := 'no-checkpoint'; RETURN; END IF;
  END IF;
  IF p_expected_known AND p_expected IS DISTINCT FROM r.head THEN outcome := 'moved'; RETURN; END IF;

  -- Only summaries of what the branch holds may stand, by position and by parentage, as after a save that branches.
  SELECT coalesce(jsonb_agg(e.pointer ORDER BY e.n), '[]') INTO v_summaries
    FROM jsonb_array_elements(r.summaries) WITH ORDINALITY AS e(pointer, n)
   WHERE (e.pointer ->> 'position')::integer <= v_position
     AND @schema@.on_branch_v1(p_tenant, p_thread, p_id, e.pointer ->> 'checkpoint_id');
  UPDATE @schema@.threads t
     SET head = p_id, position = v_position, turns = v_turns, tokens = v_tokens, summaries = v_summaries,
         updated_at = p_now
   WHERE t.tenant_id = p_tenant AND t.thread_id = p_thread
  RETURNING * INTO r;
  registry := row_to_json(r);
  outcome := 'done';
END $$
