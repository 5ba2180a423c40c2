// Package strictjson reads and writes JSON without changing it: numbers keep their text, and a text that Go's decoder would repair
// in silence (invalid UTF-8, half of a surrogate pair) is refused.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Object decodes a JSON object. Numbers become [json.Number].
func Object(text []byte) (map[string]any, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("must be a JSON object")
	}
	return object, nil
}

// Unmarshal is json.Unmarshal for one value, with numbers in values of type any as [json.Number].
func Unmarshal(text []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(target)
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("is not complete JSON")
		}
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text after its JSON value")
	}
	return value, nil
}

// Text encodes a value on one line. Object members are sorted by name, and HTML characters are not escaped.
func Text(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// Check finds what the decoder would replace by U+FFFD without an error: two different texts would become equal.
func Check(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("is not valid UTF-8")
	}
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if text[i+1] != 'u' {
			i++ // the next character is escaped, also if it is a backslash
			continue
		}
		unit := hex4(text[i+2 : i+6])
		switch {
		case unit >= 0xd800 && unit < 0xdc00:
			if i+11 >= len(text) || text[i+6] != '\\' || text[i+7] != 'u' || hex4(text[i+8:i+12])&^0x3ff != 0xdc00 {
				return errors.New("has half of a surrogate pair in a string")
			}
			i += 11
		case unit >= 0xdc00 && unit < 0xe000:
			return errors.New("has half of a surrogate pair in a string")
		default:
			i += 5
		}
	}
	return nil
}

func hex4(digits []byte) int {
	value := 0
	for _, digit := range digits {
		switch {
		case digit >= '0' && digit <= '9':
			value = value<<4 | int(digit-'0')
		case digit >= 'a' && digit <= 'f':
			value = value<<4 | int(digit-'a'+10)
		case digit >= 'A' && digit <= 'F':
			value = value<<4 | int(digit-'A'+10)
		default:
			return 0 // not an escape; the decoder reports it
		}
	}
	return value
}
