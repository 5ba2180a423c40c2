VERSION = "0.1.0"
PROTOCOL = "flowdsl.node.v1"
