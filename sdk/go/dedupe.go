package flowdsl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// DedupeKey names a kept answer.
type DedupeKey struct {
	FlowID         string `json:"flowId"`
	NodeID         string `json:"nodeId"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// KeptAnswer is the answer of a delivery that succeeded. Failures are not kept.
type KeptAnswer struct {
	// Fingerprint of the inputs: the same key with other inputs is refused.
	Fingerprint string    `json:"fingerprint"`
	Outputs     []Output  `json:"outputs"`
	SavedAt     time.Time `json:"savedAt"`
}

// DedupeStore keeps the answers of deliveries with a key. [NewMemoryStore] and the package filestore have implementations.
//
// The server calls the store for one key at a time: while a delivery runs, others with its key wait in the server. Several servers
// that share a store do not wait for each other; between Load of one and Save of the other both call the node.
type DedupeStore interface {
	// Load returns the answer that is kept for the key; ok is false if there is none. After an error the node is not called, and the
	// delivery fails with TEMPORARY.
	Load(ctx context.Context, key DedupeKey) (answer KeptAnswer, ok bool, err error)
	// Save keeps an answer. It returns nil when the answer is as durable as the store promises. After an error the answer is still
	// sent, because the effect happened, and the server logs that a repetition calls the node again.
	Save(ctx context.Context, key DedupeKey, answer KeptAnswer) error
	// Forget removes an answer, so that the next invocation calls the node, and reports whether there was one. It is for operators.
	Forget(ctx context.Context, key DedupeKey) (bool, error)
}

// fingerprintOf hashes the inputs with their members sorted by name and numbers as they were written.
func fingerprintOf(packets map[string]Packet) (string, error) {
	text, err := strictjson.Text(packets)
	if err != nil {
		return "", invalid("the inputs cannot be written as JSON: %v", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
