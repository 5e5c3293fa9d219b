-- Save as in save_turn_v1; a retry folds too. Writes staged late, between a save whose answer was lost and its retry,
-- would else stay for ever: without a key the stage cannot tell that its turn is saved.
-- A retry without a key folds only what has none: another key under that parent is another turn, maybe in flight.
CREATE FUNCTION @schema@.save_turn_v2(p_tenant text, p_thread text, p_owner text, p_identity bytea, p_digest bytea,
  p_expected text, p_parent_known boolean, p_on_conflict text, p_messages integer, p_tokens bigint, p_bytes bigint,
  p_payload json, p_metadata jsonb, p_staged text, p_key text, p_now timestamptz,
  p_channels text[], p_versions text[], p_values text[],
  OUT outcome text, OUT checkpoint_id text, OUT parent_id text, OUT "position" integer, OUT head text,
  OUT rebased boolean, OUT tokens bigint, OUT summaries jsonb) LANGUAGE plpgsql AS $$
BEGIN
  SELECT * INTO outcome, checkpoint_id, parent_id, "position", head, rebased, tokens, summaries
    FROM @schema@.save_turn_v1(p_tenant, p_thread, p_owner, p_identity, p_digest, p_expected, p_parent_known,
                               p_on_conflict, p_messages, p_tokens, p_bytes, p_payload, p_metadata, p_staged, p_key,
                               p_now, p_channels, p_versions, p_values);
  IF outcome = 'duplicate' THEN
    DELETE FROM @schema@.checkpoint_writes w
     WHERE w.tenant_id = p_tenant AND w.thread_id = p_thread AND w.ns = '~turns'
       AND w.key = coalesce(p_key, '') AND (p_key IS NOT NULL OR w.checkpoint_id = coalesce(p_staged, ''));
  END IF;
END $$
