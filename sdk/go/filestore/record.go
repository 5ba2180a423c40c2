package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// The file:
//
//	onceflow-dedupe 1\n
//	<checksum> <length> [record,record]\n
//
// A line is one write. Checksum and length are those of the JSON array, with 8 hex digits each. JSON has no line feed, so a line that
// a crash left incomplete cannot look like two lines; the length tells it from two lines whose line feed was damaged.
const header = "onceflow-dedupe 1\n"

const prefixLength = len("01234567 89abcdef ")

func prefixOf(body []byte) string {
	return fmt.Sprintf("%08x %08x ", crc32.Checksum(body, checksums), len(body))
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

type record struct {
	Key         flowdsl.DedupeKey `json:"key"`
	Fingerprint string            `json:"fingerprint,omitempty"`
	Outputs     []flowdsl.Output  `json:"outputs,omitempty"`
	SavedAtMs   int64             `json:"savedAtMs,omitempty"`
	// Forgotten removes the answer of the key.
	Forgotten bool `json:"forgotten,omitempty"`
}

func recordOf(key flowdsl.DedupeKey, answer flowdsl.KeptAnswer) record {
	return record{Key: key, Fingerprint: answer.Fingerprint, Outputs: answer.Outputs, SavedAtMs: answer.SavedAt.UnixMilli()}
}

// Answer returns the answer that the record keeps.
func (r record) Answer() flowdsl.KeptAnswer {
	return flowdsl.KeptAnswer{Fingerprint: r.Fingerprint, Outputs: r.Outputs, SavedAt: time.UnixMilli(r.SavedAtMs)}
}

// entry is where a record stands in the file.
type entry struct {
	key       flowdsl.DedupeKey
	offset    int64
	length    int
	checksum  uint32
	savedAtMs int64
}

func readRecord(file io.ReaderAt, at entry) (record, error) {
	text := make([]byte, at.length)
	if _, err := file.ReadAt(text, at.offset); err != nil {
		return record{}, err
	}
	if crc32.Checksum(text, checksums) != at.checksum {
		return record{}, errors.New("its checksum is wrong: the file was changed or the disk is damaged")
	}
	var found record
	return found, json.Unmarshal(text, &found)
}

// encode writes records as one line. Entry i is where record i will stand if the line starts at offset.
func encode(records []record, offset int64) (line []byte, entries []entry, err error) {
	var body bytes.Buffer
	body.WriteByte('[')
	for i, one := range records {
		text, err := strictjson.Text(one)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			body.WriteByte(',')
		}
		at := entry{key: one.Key, offset: offset + int64(prefixLength+body.Len()), length: len(text), savedAtMs: one.SavedAtMs}
		at.checksum = crc32.Checksum(text, checksums)
		entries = append(entries, at)
		body.Write(text)
	}
	body.WriteByte(']')
	if int64(body.Len()) > math.MaxUint32 {
		return nil, nil, errors.New("a write of more than 4 GiB")
	}
	line = append([]byte(prefixOf(body.Bytes())), body.Bytes()...)
	return append(line, '\n'), entries, nil
}

// decode reads a line without its line feed that starts at offset. ok is false if the line is not what encode wrote.
func decode(line []byte, offset int64) (records []record, entries []entry, ok bool) {
	if len(line) < prefixLength {
		return nil, nil, false
	}
	body := line[prefixLength:]
	if string(line[:prefixLength]) != prefixOf(body) {
		return nil, nil, false
	}
	var texts []json.RawMessage
	if json.Unmarshal(body, &texts) != nil {
		return nil, nil, false
	}
	position := 1
	for _, text := range texts {
		var one record
		if json.Unmarshal(text, &one) != nil {
			return nil, nil, false
		}
		at := entry{key: one.Key, offset: offset + int64(prefixLength+position), length: len(text), savedAtMs: one.SavedAtMs}
		at.checksum = crc32.Checksum(text, checksums)
		records, entries = append(records, one), append(entries, at)
		position += len(text) + 1
	}
	return records, entries, true
}

// beginsWithLine reports whether a line that decode refused begins with a complete one and goes on: a line feed was damaged.
func beginsWithLine(line []byte) bool {
	if len(line) < prefixLength {
		return false
	}
	var checksum, length uint32
	if n, err := fmt.Sscanf(string(line[:prefixLength]), "%08x %08x ", &checksum, &length); n != 2 || err != nil {
		return false
	}
	body := line[prefixLength:]
	return int64(len(body)) > int64(length)+1 && crc32.Checksum(body[:length], checksums) == checksum
}
