-- Stage one task's values in one trip: lock the thread, then decide on what is true.
-- outcome: created | same | differs | folded | too-many | too-large | no-parent | unknown | deleted
-- p_identity: of the turn of that key, null without one. p_parent: null for an empty thread (or unknown, with
-- p_parent_known false). p_values: JSON text each, one a channel.
-- parent: under which the task stands, '' for none. channels, values: as they are stored, where they differ byte by
-- byte; whether they differ as values is for the caller to say.
CREATE FUNCTION @schema@.stage_writes_v1(p_tenant text, p_thread text, p_owner text, p_identity bytea, p_parent text,
  p_parent_known boolean, p_key text, p_task text, p_channels text[], p_values text[], p_most_writes integer,
  p_most_bytes bigint, p_now timestamptz,
  OUT outcome text, OUT parent text, OUT checkpoint_id text, OUT channels text[], OUT "values" text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  r @schema@.threads;
  v_id text;
  v_parent text;
  v_writes integer;     -- staged under the parent by now, whatever the key
  v_bytes bigint;
  v_task integer;       -- tasks staged before this one under its key and parent: the order of replay
BEGIN
  r := @schema@.open_thread_v1(p_tenant, p_thread, p_owner, p_parent IS NULL, p_now);
  IF r.thread_id IS NULL THEN outcome := 'unknown'; RETURN; END IF;
  IF r.deleted_at IS NOT NULL THEN outcome := 'deleted'; RETURN; END IF;

  IF p_identity IS NOT NULL THEN
    SELECT c.checkpoint_id, c.parent_id INTO v_id, v_parent FROM @schema@.checkpoints c
     WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.identity = p_identity;
    IF FOUND THEN
      outcome := 'folded'; checkpoint_id := v_id;
      parent := coalesce(CASE WHEN p_parent_known THEN p_parent ELSE v_parent END, '');
      RETURN;
    END IF;
  END IF;

  IF p_parent_known THEN
    IF p_parent IS NOT NULL AND p_parent IS DISTINCT FROM r.head AND NOT EXISTS (
      SELECT FROM @schema@.checkpoints c
       WHERE c.tenant_id = p_tenant AND c.thread_id = p_thread AND c.ns = '~turns' AND c.checkpoint_id = p_parent) THEN
      outcome := 'no-parent'; RETURN;
    END IF;
    v_parent := coalesce(p_parent, '');
  ELSE
    -- A turn stays where it began, so a task sent again is the same task though the head has moved.
    v_parent := NULL;
    IF p_key <> '' THEN
      SELECT w.checkpoint_id INTO v_parent FROM @schema@.checkpoint_writes w
       WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns' AND w.key = p_key
       ORDER BY w.task_id = p_task DESC, w.checkpoint_id DESC LIMIT 1;
    END IF;
    v_parent := coalesce(v_parent, r.head, '');
  END IF;
  parent := v_parent;

  SELECT count(*), coalesce(sum(octet_length(w.data)), 0), count(DISTINCT w.task_id) FILTER (WHERE w.key = p_key),
         array_agg(w.channel ORDER BY w.idx) FILTER (WHERE w.key = p_key AND w.task_id = p_task),
         array_agg(convert_from(w.data, 'UTF8') ORDER BY w.idx) FILTER (WHERE w.key = p_key AND w.task_id = p_task)
    INTO v_writes, v_bytes, v_task, channels, "values"
    FROM @schema@.checkpoint_writes w
   WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns' AND w.checkpoint_id = v_parent;
  IF channels IS NOT NULL THEN
    outcome := 'differs';
    IF channels = p_channels AND "values" = p_values THEN
      outcome := 'same'; channels := NULL; "values" := NULL;
    END IF;
    RETURN;
  END IF;
  IF v_writes + cardinality(p_channels) > p_most_writes THEN outcome := 'too-many'; RETURN; END IF;
  IF v_bytes + (SELECT sum(octet_length(v.value)) FROM unnest(p_values) AS v(value)) > p_most_bytes THEN
    outcome := 'too-large'; RETURN;
  END IF;

  INSERT INTO @schema@.checkpoint_writes (tenant_id, thread_id, ns, checkpoint_id, key, task_id, idx, task_path, channel,
                                          type, data, created_at)
  SELECT p_tenant, p_thread, '~turns', v_parent, p_key, p_task, v.n - 1, lpad(v_task::text, 10, '0'), v.channel,
         'json', convert_to(v.value, 'UTF8'), p_now
    FROM unnest(p_channels, p_values) WITH ORDINALITY AS v(channel, value, n);
  outcome := 'created';
END $$
