package flowdsl

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// Packet is a packet as a node sees it: a JSON object. Members are read by name, and nested members by path: "email.messageId".
//
// Numbers that came over the wire are kept as [json.Number], so that an id of 64 bits does not lose digits.
type Packet struct {
	data map[string]any
}

// NewPacket returns a packet with this data.
func NewPacket(data map[string]any) Packet {
	if data == nil {
		data = map[string]any{}
	}
	return Packet{data: data}
}

// PacketFromJSON decodes a JSON object. It returns a VALIDATION error for anything else.
func PacketFromJSON(text []byte) (Packet, error) {
	data, err := strictjson.Object(text)
	if err != nil {
		return Packet{}, invalid("the packet %v", err)
	}
	return NewPacket(data), nil
}

// Data returns the members. Do not change the map: other readers of the packet share it.
func (p Packet) Data() map[string]any { return p.data }

// MarshalJSON writes the packet as a JSON object.
func (p Packet) MarshalJSON() ([]byte, error) {
	if p.data == nil {
		return []byte("{}"), nil
	}
	return strictjson.Text(p.data)
}

// UnmarshalJSON reads a JSON object.
func (p *Packet) UnmarshalJSON(text []byte) (err error) {
	*p, err = PacketFromJSON(text)
	return err
}

// Decode stores the packet in the value that target points to, as [json.Unmarshal] does, except that numbers in members of type any
// become [json.Number]. It returns a VALIDATION error if the packet does not fit.
func (p Packet) Decode(target any) error {
	text, err := p.MarshalJSON()
	if err == nil {
		err = strictjson.Unmarshal(text, target)
	}
	if err != nil {
		return invalid("the packet does not fit %T: %v", target, err)
	}
	return nil
}

// Get returns the member at path. ok is false if the packet does not have it; a member that is null is there.
func (p Packet) Get(path string) (value any, ok bool) {
	// A member whose name contains a dot takes precedence over a path.
	if value, ok = p.data[path]; ok {
		return value, true
	}
	value = p.data
	for _, name := range strings.Split(path, ".") {
		members, isObject := value.(map[string]any)
		if !isObject {
			return nil, false
		}
		if value, ok = members[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// GetOr returns the member at path, or fallback if the packet does not have it.
func (p Packet) GetOr(path string, fallback any) any {
	if value, ok := p.Get(path); ok {
		return value
	}
	return fallback
}

// Has reports whether the packet has the member.
func (p Packet) Has(path string) bool {
	_, ok := p.Get(path)
	return ok
}

// GetString returns the member as a string. It returns a VALIDATION error if the member is missing or has another type.
func (p Packet) GetString(path string) (string, error) {
	value, ok := p.Get(path)
	if text, isString := value.(string); isString {
		return text, nil
	}
	return "", wrongType(path, value, ok, "a string")
}

// GetNumber returns the member as a number. It returns a VALIDATION error if the member is missing or has another type.
// A float64 is exact for integers up to 2^53; use GetInt for larger ones.
func (p Packet) GetNumber(path string) (float64, error) {
	value, ok := p.Get(path)
	if number, isNumber := toFloat(value); isNumber {
		return number, nil
	}
	return 0, wrongType(path, value, ok, "a number")
}

// GetInt returns the member as an integer, exactly. It returns a VALIDATION error if the member is missing, has another type, has a
// fraction, or does not fit 64 bits.
func (p Packet) GetInt(path string) (int64, error) {
	value, ok := p.Get(path)
	if number, isInteger := toInt(value); isInteger {
		return number, nil
	}
	return 0, wrongType(path, value, ok, "an integer of 64 bits")
}

// GetBool returns the member as a boolean. It returns a VALIDATION error if the member is missing or has another type.
func (p Packet) GetBool(path string) (bool, error) {
	value, ok := p.Get(path)
	if truth, isBool := value.(bool); isBool {
		return truth, nil
	}
	return false, wrongType(path, value, ok, "a boolean")
}

// GetStringOr returns the member as a string, or fallback if it is missing or has another type.
func (p Packet) GetStringOr(path, fallback string) string {
	return valueOr(p.GetString, path, fallback)
}

// GetNumberOr returns the member as a number, or fallback if it is missing or has another type.
func (p Packet) GetNumberOr(path string, fallback float64) float64 {
	return valueOr(p.GetNumber, path, fallback)
}

// GetIntOr returns the member as an integer, or fallback if it is missing or is not an integer of 64 bits.
func (p Packet) GetIntOr(path string, fallback int64) int64 { return valueOr(p.GetInt, path, fallback) }

// GetBoolOr returns the member as a boolean, or fallback if it is missing or has another type.
func (p Packet) GetBoolOr(path string, fallback bool) bool { return valueOr(p.GetBool, path, fallback) }

func valueOr[T any](get func(string) (T, error), path string, fallback T) T {
	if value, err := get(path); err == nil {
		return value
	}
	return fallback
}

func wrongType(path string, value any, ok bool, wanted string) error {
	switch {
	case !ok:
		return invalid("the packet's %q is missing; it must be %s", path, wanted)
	case value == nil:
		return invalid("the packet's %q is null; it must be %s", path, wanted)
	}
	return invalid("the packet's %q is %s; it must be %s", path, typeName(value), wanted)
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	}
	if _, ok := toFloat(value); ok {
		return fmt.Sprintf("the number %v", value)
	}
	return fmt.Sprintf("a %T", value)
}

// toFloat accepts json.Number, which the wire gives, and Go's numbers, which NewPacket may be given.
func toFloat(value any) (float64, bool) {
	if text, ok := value.(json.Number); ok {
		number, err := text.Float64()
		return number, err == nil
	}
	switch number := reflect.ValueOf(value); number.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return float64(number.Int()), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return float64(number.Uint()), true
	case reflect.Float32, reflect.Float64:
		return number.Float(), true
	}
	return 0, false
}

func toInt(value any) (int64, bool) {
	if text, ok := value.(json.Number); ok {
		return exactInt(string(text))
	}
	switch number := reflect.ValueOf(value); number.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return number.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int64(number.Uint()), number.Uint() <= math.MaxInt64
	case reflect.Float32, reflect.Float64:
		float := number.Float()
		return int64(float), float == math.Trunc(float) && math.Abs(float) < 1<<63
	}
	return 0, false
}

// exactInt also reads "1.0" and "1e3", which are integers in JSON. Length and exponent are bounded: "1e-999999999" is a short text
// for a fraction that does not fit into memory.
func exactInt(text string) (int64, bool) {
	if _, exponent, has := strings.Cut(strings.ToLower(text), "e"); has {
		if power, err := strconv.Atoi(exponent); err != nil || power > exactIntLength || power < -exactIntLength {
			return 0, false
		}
	}
	if len(text) > exactIntLength {
		return 0, false
	}
	number, ok := new(big.Rat).SetString(text)
	if !ok || !number.IsInt() || !number.Num().IsInt64() {
		return 0, false
	}
	return number.Num().Int64(), true
}

const exactIntLength = 400
