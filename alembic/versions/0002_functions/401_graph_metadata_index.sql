-- Finds graph checkpoints by what their metadata holds. Turns (namespaces that begin with a tilde) do not pay for it.
CREATE INDEX checkpoints_graph_metadata ON @schema@.checkpoints USING gin (metadata jsonb_path_ops)
 WHERE ns < '~' OR ns >= E'\x7f'
