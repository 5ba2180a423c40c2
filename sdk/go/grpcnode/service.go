package grpcnode

import (
	"context"
	"math"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/grpcnode/nodev1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type service struct {
	nodev1.UnimplementedNodeServiceServer
	invoker *flowdsl.Invoker
}

func (s *service) Invoke(ctx context.Context, request *nodev1.InvokeRequest) (*nodev1.InvokeResponse, error) {
	answer, failure := s.invoke(ctx, request)
	if failure != nil {
		if err := statusOf(failure); err != nil {
			return nil, err
		}
		return &nodev1.InvokeResponse{Error: errorOf(failure)}, nil
	}
	response := &nodev1.InvokeResponse{Replayed: answer.Replayed}
	for _, output := range answer.Outputs {
		response.Outputs = append(response.Outputs, outputOf(output))
	}
	return response, nil
}

// InvokeStream sends the packets after the node has returned and its answer is kept: a replay sends the same.
func (s *service) InvokeStream(request *nodev1.InvokeRequest, stream grpc.ServerStreamingServer[nodev1.InvokeStreamResponse]) error {
	answer, failure := s.invoke(stream.Context(), request)
	if failure != nil {
		if err := statusOf(failure); err != nil {
			return err
		}
		return stream.Send(&nodev1.InvokeStreamResponse{Event: &nodev1.InvokeStreamResponse_Error{Error: errorOf(failure)}})
	}
	for _, output := range answer.Outputs {
		if err := stream.Send(&nodev1.InvokeStreamResponse{Event: &nodev1.InvokeStreamResponse_Output{Output: outputOf(output)}}); err != nil {
			return err
		}
	}
	return stream.Send(&nodev1.InvokeStreamResponse{Event: &nodev1.InvokeStreamResponse_Done{Done: &nodev1.Done{Replayed: answer.Replayed}}})
}

func (s *service) invoke(ctx context.Context, request *nodev1.InvokeRequest) (flowdsl.Answer, *flowdsl.Failure) {
	if failure := s.authorize(ctx); failure != nil {
		return flowdsl.Answer{}, failure
	}
	slot, failure := s.invoker.Admit()
	if failure != nil {
		return flowdsl.Answer{}, failure
	}
	defer slot.Release()
	call, failure := invocationOf(ctx, request)
	if failure != nil {
		return flowdsl.Answer{}, failure
	}
	return s.invoker.Invoke(ctx, slot, call)
}

func (s *service) authorize(ctx context.Context) *flowdsl.Failure {
	header := ""
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		header = values[0]
	}
	return s.invoker.Authorize(header)
}

// invocationOf reads a request. The message decides; metadata repeats it for proxies and logs.
func invocationOf(ctx context.Context, request *nodev1.InvokeRequest) (flowdsl.Invocation, *flowdsl.Failure) {
	call := flowdsl.Invocation{
		OperationID: request.GetOperationId(),
		Context: flowdsl.NodeContext{
			FlowID: request.GetFlowId(), ExecutionID: request.GetExecutionId(), NodeID: request.GetNodeId(), PacketID: request.GetPacketId(),
			IdempotencyKey: request.GetIdempotencyKey(), Attempt: int(request.GetAttempt()), TraceHeaders: request.GetTraceHeaders(),
		},
		Settings: map[string]any{},
		Inputs:   map[string]flowdsl.Packet{},
	}
	if call.Context.TraceHeaders == nil {
		call.Context.TraceHeaders = map[string]string{}
	}
	if request.GetAttempt() == 0 || request.GetAttempt() > math.MaxInt32 {
		return call, flowdsl.Malformed("attempt must be an integer from 1")
	}
	if deadline, ok := ctx.Deadline(); ok {
		call.Deadline = max(time.Until(deadline), 1)
	}
	if text := request.GetSettingsJson(); len(text) > 0 {
		settings, err := flowdsl.PacketFromJSON(text)
		if err != nil {
			return call, flowdsl.Malformed("settings_json: %v", err)
		}
		call.Settings = settings.Data()
	}
	for port, text := range request.GetInputsJson() {
		packet, err := flowdsl.PacketFromJSON(text)
		if err != nil {
			return call, flowdsl.Malformed("inputs_json[%q]: %v", port, err)
		}
		call.Inputs[port] = packet
	}
	return call, flowdsl.CheckInvocation(call, request.IdempotencyKey != nil)
}

func (s *service) Health(context.Context, *nodev1.HealthRequest) (*nodev1.HealthResponse, error) {
	health := s.invoker.Health()
	state := nodev1.HealthResponse_SERVING
	if health.Stopping {
		state = nodev1.HealthResponse_STOPPING
	}
	return &nodev1.HealthResponse{Status: state, InFlight: uint32(health.InFlight), Concurrency: uint32(health.Concurrency)}, nil
}

func (s *service) Manifest(ctx context.Context, _ *nodev1.ManifestRequest) (*nodev1.ManifestResponse, error) {
	if failure := s.authorize(ctx); failure != nil {
		return nil, statusOf(failure)
	}
	response := &nodev1.ManifestResponse{Protocol: flowdsl.Protocol, SdkLanguage: "go", SdkVersion: flowdsl.Version}
	for _, node := range s.invoker.Manifest() {
		response.Nodes = append(response.Nodes, &nodev1.ManifestNode{
			OperationId: node.OperationID, Version: node.Version, Summary: node.Summary, Inputs: node.Inputs, Outputs: node.Outputs,
		})
	}
	return response, nil
}

// statusOf returns the status of a failure that the node did not decide, and nil for one that belongs into the answer: also that the
// server is busy, because a status has no place for the time to wait.
func statusOf(failure *flowdsl.Failure) error {
	statuses := map[flowdsl.Reason]codes.Code{
		flowdsl.ReasonDeadline:     codes.DeadlineExceeded,
		flowdsl.ReasonUnknownNode:  codes.NotFound,
		flowdsl.ReasonUnauthorized: codes.Unauthenticated,
		flowdsl.ReasonStopping:     codes.Unavailable,
		flowdsl.ReasonMalformed:    codes.InvalidArgument,
		flowdsl.ReasonTooLarge:     codes.InvalidArgument,
	}
	code, ok := statuses[failure.Reason]
	if !ok {
		return nil
	}
	return status.Error(code, failure.Message)
}

func errorOf(failure *flowdsl.Failure) *nodev1.NodeError {
	return &nodev1.NodeError{Code: string(failure.Code), Message: failure.Message, RetryAfterMs: uint64(max(failure.RetryAfter.Milliseconds(), 0))}
}

func outputOf(output flowdsl.Output) *nodev1.Output {
	return &nodev1.Output{Port: output.Port, DataJson: output.Data}
}
