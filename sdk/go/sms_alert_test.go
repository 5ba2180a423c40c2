package flowdsl_test

import (
	"context"
	"errors"
	"testing"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

// SmsAlertNode is the node of the guide "Writing Idempotent Nodes".
type SmsAlertNode struct {
	twilio *MockTwilioClient
}

func (n *SmsAlertNode) OperationID() string { return "sms_alert" }

func (n *SmsAlertNode) Handle(ctx context.Context, input flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	payload, err := input.Packet("in")
	if err != nil {
		return flowdsl.NodeOutput{}, err
	}

	// The guide reads it and does not use it, which Go does not compile: here it is sent on.
	messageId, _ := payload.GetString("messageId")

	// Pass the idempotency key to the provider: it closes the window in which this process may die.
	idempotencyKey := input.Context().IdempotencyKey
	result, err := n.twilio.SendSMS(ctx, &SMSParams{
		To:             payload.GetStringOr("phoneNumber", ""),
		Body:           payload.GetStringOr("message", ""),
		IdempotencyKey: idempotencyKey,
	})
	if err != nil {
		if isTwilioRateLimit(err) {
			return flowdsl.NodeOutput{}, flowdsl.NewNodeError(flowdsl.ErrCodeRateLimited, "Twilio rate limit", err)
		}
		return flowdsl.NodeOutput{}, flowdsl.NewNodeError(flowdsl.ErrCodeTemporary, "Twilio SMS failed", err)
	}

	return flowdsl.NodeOutput{}.Send("out", map[string]any{
		"messageId": messageId,
		"sid":       result.SID,
		"status":    result.Status,
	}), nil
}

type SMSParams struct{ To, Body, IdempotencyKey string }
type SMSResult struct{ SID, Status string }

var errRateLimit = errors.New("429")

func isTwilioRateLimit(err error) bool { return errors.Is(err, errRateLimit) }

// MockTwilioClient sends an SMS for every call: the test shows what the SDK does, not what the provider does.
type MockTwilioClient struct {
	sent []SMSParams
	err  error
}

func (c *MockTwilioClient) SendSMS(_ context.Context, params *SMSParams) (SMSResult, error) {
	if c.err != nil {
		return SMSResult{}, c.err
	}
	c.sent = append(c.sent, *params)
	return SMSResult{SID: "SM1", Status: "queued"}, nil
}

func (c *MockTwilioClient) SentCount() int { return len(c.sent) }

func TestSmsAlertIdempotency(t *testing.T) {
	twilio := &MockTwilioClient{}
	node := &SmsAlertNode{twilio: twilio}

	payload := flowdsl.NewPacket(map[string]any{
		"messageId":   "msg-001",
		"phoneNumber": "+15550100300",
		"message":     "Production alert: database unreachable",
	})

	input := flowdsl.MockNodeInput("in", payload,
		flowdsl.WithIdempotencyKey("msg-001-sms"),
	)

	// First delivery: sends the SMS. Deliver and not node.Handle, because the runtime dedupes, not the node: it checks the key before
	// it calls Handle, and Deliver does what the runtime does. A direct call of Handle has its effect every time.
	first, err := flowdsl.Deliver(context.Background(), node, input)
	if err != nil {
		t.Fatal(err)
	}
	if twilio.SentCount() != 1 {
		t.Fatalf("sent %d SMS, want 1", twilio.SentCount())
	}

	// Second delivery with the same idempotency key: does not send an SMS.
	second, err := flowdsl.Deliver(context.Background(), node, input)
	if err != nil {
		t.Fatal(err)
	}
	if twilio.SentCount() != 1 { // still 1, not 2
		t.Fatalf("sent %d SMS, want 1", twilio.SentCount())
	}

	if got := second.Packets("out")[0].GetStringOr("sid", ""); got != "SM1" || len(first.Sent()) != 1 {
		t.Fatalf("second output has sid %q, first %d packets", got, len(first.Sent()))
	}
	if got := twilio.sent[0]; got.IdempotencyKey != "msg-001-sms" || got.To != "+15550100300" {
		t.Fatalf("sent %+v", got)
	}
}

func TestSmsAlertFailureIsNotKept(t *testing.T) {
	twilio := &MockTwilioClient{err: errRateLimit}
	node := &SmsAlertNode{twilio: twilio}
	input := flowdsl.MockNodeInput("in", flowdsl.NewPacket(map[string]any{"messageId": "m"}), flowdsl.WithIdempotencyKey("m-sms"))

	_, err := flowdsl.Deliver(context.Background(), node, input)
	if flowdsl.CodeOf(err) != flowdsl.ErrCodeRateLimited || !errors.Is(err, errRateLimit) {
		t.Fatalf("first delivery: %v", err)
	}
	twilio.err = nil
	if _, err := flowdsl.Deliver(context.Background(), node, input); err != nil || twilio.SentCount() != 1 {
		t.Fatalf("second delivery: %v, %d sent", err, twilio.SentCount())
	}
}
