"""The node server over gRPC. Needs ``pip install flowdsl[grpc]``."""
