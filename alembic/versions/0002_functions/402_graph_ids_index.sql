-- Lists a tenant's graph checkpoints of all threads and namespaces, newest first.
CREATE INDEX checkpoints_graph_ids ON @schema@.checkpoints (tenant_id, checkpoint_id)
 WHERE ns < '~' OR ns >= E'\x7f'
