"""`torch.distributed.elastic.agent`: what starts the processes of a machine and starts them again."""
