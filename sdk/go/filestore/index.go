package filestore

import (
	"container/list"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

// index knows where the live answers stand, from the oldest to the newest. Packets stay in the file.
type index struct {
	byKey  map[flowdsl.DedupeKey]*list.Element
	oldest *list.List
	bytes  int64
}

func newIndex() index { return index{byKey: map[flowdsl.DedupeKey]*list.Element{}, oldest: list.New()} }

func (x *index) len() int { return len(x.byKey) }

func (x *index) get(key flowdsl.DedupeKey) (entry, bool) {
	element, ok := x.byKey[key]
	if !ok {
		return entry{}, false
	}
	return element.Value.(entry), true
}

func (x *index) apply(one record, at entry) {
	if element, ok := x.byKey[one.Key]; ok {
		x.remove(element)
	}
	if !one.Forgotten {
		x.byKey[one.Key] = x.oldest.PushBack(at)
		x.bytes += int64(at.length)
	}
}

func (x *index) expire(limits flowdsl.KeepLimits, now time.Time) {
	before := now.Add(-limits.AgeMax).UnixMilli()
	for first := x.oldest.Front(); first != nil; first = x.oldest.Front() {
		tooMany := len(x.byKey) > limits.AnswersMax || x.bytes > limits.BytesMax
		if !tooMany && first.Value.(entry).savedAtMs > before {
			return
		}
		x.remove(first)
	}
}

func (x *index) remove(element *list.Element) {
	at := x.oldest.Remove(element).(entry)
	delete(x.byKey, at.key)
	x.bytes -= int64(at.length)
}
