#!/bin/sh
# Generates flowdsl/grpc/node_pb2.py and .pyi from schema/flowdsl/node/v1/node.proto. Run it after a change of the .proto:
#   python3 -m venv /tmp/protoc && /tmp/protoc/bin/pip install grpcio-tools==1.62.3
#   PATH=/tmp/protoc/bin:$PATH sdk/python/generate-proto.sh
# That version is on purpose: code of protobuf 4.25 runs with every later protobuf; code of a later one refuses an earlier one.
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
python3 -m grpc_tools.protoc -I ../../schema --python_out="$out" --pyi_out="$out" flowdsl/node/v1/node.proto
cp "$out"/flowdsl/node/v1/node_pb2.py "$out"/flowdsl/node/v1/node_pb2.pyi flowdsl/grpc/
