// Package grpcnode serves flowdsl nodes over gRPC: the service flowdsl.node.v1.NodeService. It is a module of its own, so that servers
// over HTTP need no dependency.
//
// The code in nodev1 is generated from schema/flowdsl/node/v1/node.proto by generate.sh.
package grpcnode
