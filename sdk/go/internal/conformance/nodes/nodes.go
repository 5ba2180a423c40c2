// Package nodes has the nodes of the programs that the conformance suite of the node protocol starts
// (test/nodes). The suite runs the same cases against node servers in every language.
package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

// All returns the nodes that the suite calls.
func All() []flowdsl.Node {
	return []flowdsl.Node{
		flowdsl.NodeFunc("echo", echo),
		flowdsl.NodeFunc("many", many),
		flowdsl.NodeFunc("fail", fail),
		flowdsl.NodeFunc("context", showContext),
		flowdsl.NodeFunc("effect", effect),
		flowdsl.NodeFunc("needs_other", needsOther),
	}
}

// echo sends the packet of each port, in the order of the names of the ports.
func echo(_ context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	output := flowdsl.NodeOutput{}
	for _, port := range input.Ports() {
		packet, err := input.Packet(port)
		if err != nil {
			return output, err
		}
		output = output.Send("out", packet)
	}
	return output, nil
}

// many sends payload.n packets.
func many(_ context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	output := flowdsl.NodeOutput{}
	payload, err := input.Packet("in")
	if err != nil {
		return output, err
	}
	count, err := payload.GetInt("n")
	if err != nil {
		return output, err
	}
	for i := range count {
		output = output.Send("out", map[string]any{"i": i})
	}
	return output, nil
}

// fail returns the error that the payload asks for.
func fail(_ context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	payload, err := input.Packet("in")
	if err != nil {
		return flowdsl.NodeOutput{}, err
	}
	code, message := payload.GetStringOr("code", "TEMPORARY"), payload.GetStringOr("message", "")
	if code == "EXCEPTION" {
		return flowdsl.NodeOutput{}, errors.New(message)
	}
	if code == "PANIC" {
		panic(message)
	}
	return flowdsl.NodeOutput{}, flowdsl.NewNodeError(flowdsl.ErrorCode(code), message, nil)
}

// showContext sends the facts about the call.
func showContext(ctx context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	facts := input.Context()
	var key any
	if facts.IdempotencyKey != "" {
		key = facts.IdempotencyKey
	}
	_, hasDeadline := ctx.Deadline()
	return flowdsl.NodeOutput{}.Send("out", map[string]any{
		"flowId": facts.FlowID, "executionId": facts.ExecutionID, "nodeId": facts.NodeID, "packetId": facts.PacketID,
		"idempotencyKey": key, "attempt": facts.Attempt, "traceHeaders": facts.TraceHeaders,
		"settings": input.Settings(), "hasDeadline": hasDeadline,
	}), nil
}

const answerMax = 1 << 20

// effect has an effect at the other side, which counts: it posts to payload.url with the key. It goes on after the deadline.
func effect(ctx context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	none := flowdsl.NodeOutput{}
	payload, err := input.Packet("in")
	if err != nil {
		return none, err
	}
	url, err := payload.GetString("url")
	if err != nil {
		return none, err
	}
	facts := input.Context()
	body, err := json.Marshal(map[string]any{"key": facts.IdempotencyKey, "attempt": facts.Attempt})
	if err != nil {
		return none, err
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return none, err
	}
	request.Header.Set("Content-Type", "application/json")
	if facts.IdempotencyKey != "" {
		request.Header.Set("Idempotency-Key", facts.IdempotencyKey)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return none, flowdsl.NewNodeError(flowdsl.ErrCodeNetwork, "the provider cannot be reached", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return none, flowdsl.NewNodeError(flowdsl.ErrCodeNetwork, "the provider's answer was cut off", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return none, flowdsl.NewNodeError(flowdsl.ErrCodeTemporary, fmt.Sprintf("the provider answered %d", response.StatusCode), nil)
	}
	return none.Send("out", map[string]any{"answer": json.RawMessage(text)}), nil
}

// needsOther sends the packet of the port "other".
func needsOther(_ context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	packet, err := input.Packet("other")
	if err != nil {
		return flowdsl.NodeOutput{}, err
	}
	return flowdsl.NodeOutput{}.Send("out", packet), nil
}
