package flowdsl

import (
	"encoding/json"
	"slices"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// UnmarshalWithExtra decodes a JSON object into fields, a pointer to a struct, and its other members into extra. Types that
// `onceflow generate go` makes of schemas with additionalProperties use it. known are the members that the struct has.
func UnmarshalWithExtra[T any](text []byte, fields any, extra *map[string]T, known ...string) error {
	if err := strictjson.Unmarshal(text, fields); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	*extra = nil
	for name, member := range members {
		if slices.Contains(known, name) {
			continue
		}
		var value T
		if err := strictjson.Unmarshal(member, &value); err != nil {
			return err
		}
		if *extra == nil {
			*extra = map[string]T{}
		}
		(*extra)[name] = value
	}
	return nil
}

// MarshalWithExtra encodes the members of a struct and of extra as one JSON object. A member of the struct takes precedence.
func MarshalWithExtra[T any](fields any, extra map[string]T) ([]byte, error) {
	text, err := strictjson.Text(fields)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for name, value := range extra {
		if _, taken := members[name]; taken {
			continue
		}
		if members[name], err = strictjson.Text(value); err != nil {
			return nil, err
		}
	}
	return strictjson.Text(members)
}
