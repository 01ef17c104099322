dnl server: checkpoints are safetensors with a JSON manifest.
GW_NEED([JANSSON], [jansson >= 2.13], [libjansson-dev], [manifests and JSON lines])
