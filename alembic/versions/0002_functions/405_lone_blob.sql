-- The stored version of a channel's only value under a client version; null for none, empty for several.
-- A stored version is the client's, a dot and 22 hex digits; the slash is what sorts right behind the dot.
CREATE FUNCTION @schema@.lone_blob_v1(p_tenant text, p_thread text, p_ns text, p_channel text, p_version text)
RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN count(*) > 1 THEN '' ELSE max(found.version) END
    FROM (SELECT b.version FROM @schema@.checkpoint_blobs b
           WHERE b.tenant_id = p_tenant AND b.thread_id = p_thread AND b.ns = p_ns AND b.channel = p_channel
             AND b.version > p_version || '.' AND b.version < p_version || '/'
             AND length(b.version) = length(p_version) + 23 LIMIT 2) AS found
$$
