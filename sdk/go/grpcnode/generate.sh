#!/bin/sh
# Generates nodev1 from schema/flowdsl/node/v1/node.proto. Needs protoc (Debian: protobuf-compiler) and Go.
set -eu
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOBIN="$tools" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN="$tools" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0
PATH="$tools:$PATH" protoc -I ../../../schema \
  --go_out=. --go_opt=module=github.com/onceflow/onceflow/sdk/go/grpcnode \
  --go-grpc_out=. --go-grpc_opt=module=github.com/onceflow/onceflow/sdk/go/grpcnode \
  flowdsl/node/v1/node.proto
