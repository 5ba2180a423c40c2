package flowdsl_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

func packetOf(t *testing.T, text string) flowdsl.Packet {
	t.Helper()
	packet, err := flowdsl.PacketFromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

func TestPacketMembersByNameAndPath(t *testing.T) {
	packet := packetOf(t, `{"email":{"messageId":"m-1","read":false},"a.b":1,"score":0,"nothing":null,"big":9007199254740993,"e":1e3,"f":1.5}`)
	for _, one := range []struct {
		got, want any
	}{
		{packet.GetStringOr("email.messageId", ""), "m-1"},
		{packet.GetNumberOr("a.b", 9), 1.0},
		{packet.GetNumberOr("score", 9), 0.0},
		{packet.GetBoolOr("email.read", true), false},
		{packet.GetIntOr("big", 0), int64(9007199254740993)},
		{packet.GetIntOr("e", 0), int64(1000)},
		{packet.GetIntOr("f", -1), int64(-1)},
		{packet.Has("nothing"), true},
		{packet.Has("email.subject"), false},
		{packet.GetOr("email.subject", "none"), "none"},
		{packet.GetOr("nothing", 5), nil},
	} {
		if one.got != one.want {
			t.Errorf("got %#v, want %#v", one.got, one.want)
		}
	}
}

func TestPacketWrongTypes(t *testing.T) {
	packet := packetOf(t, `{"amount":"12","deep":null,"far":1e-999999999,"list":[1]}`)
	_, number := packet.GetNumber("amount")
	_, text := packet.GetString("id")
	_, null := packet.GetString("deep")
	_, integer := packet.GetInt("far")
	_, list := packet.GetBool("list")
	for want, err := range map[string]error{
		`the packet's "amount" is a string; it must be a number`: number,
		`the packet's "id" is missing; it must be a string`:      text,
		`the packet's "deep" is null; it must be a string`:       null,
		`it must be an integer of 64 bits`:                       integer,
		`the packet's "list" is an array; it must be a boolean`:  list,
	} {
		if err == nil || !strings.Contains(err.Error(), want) || flowdsl.CodeOf(err) != flowdsl.ErrCodeValidation {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, bad := range []string{"null", "[]", `"x"`, "", "{", "{} {}", `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":"\udc00\ud800"}`} {
		if _, err := flowdsl.PacketFromJSON([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := flowdsl.PacketFromJSON([]byte(`{"a":"\ud83d\ude00 \\ud800"}`)); err != nil {
		t.Error(err)
	}
}

func TestPacketDecode(t *testing.T) {
	var order struct {
		ID    int64 `json:"id"`
		Other any   `json:"other"`
	}
	if err := packetOf(t, `{"other":9007199254740993}`).Decode(&order); err != nil || order.Other != json.Number("9007199254740993") {
		t.Fatal(order, err)
	}
	if err := packetOf(t, `{"id":9223372036854775807}`).Decode(&order); err != nil || order.ID != 9223372036854775807 {
		t.Fatal(order, err)
	}
	if err := packetOf(t, `{"id":"x"}`).Decode(&order); flowdsl.CodeOf(err) != flowdsl.ErrCodeValidation {
		t.Fatal(err)
	}
}

func TestInputNamesItsPorts(t *testing.T) {
	input := flowdsl.MockNodeInput("in", flowdsl.NewPacket(nil), flowdsl.WithPacket("other", flowdsl.NewPacket(nil)))
	_, err := input.Packet("out")
	if flowdsl.CodeOf(err) != flowdsl.ErrCodeInputMissing || !strings.Contains(err.Error(), `no packet at port "out"; ports with a packet: "in", "other"`) {
		t.Fatal(err)
	}
}

func TestOutputsDoNotShareMemory(t *testing.T) {
	data := map[string]any{"n": 1}
	base := flowdsl.NodeOutput{}.Send("out", data)
	data["n"] = 99
	left, right := base.Send("left", map[string]any{}), base.Send("right", map[string]any{"html": "<&>"})
	text, _ := json.Marshal([]any{len(base.Sent()), left.Sent()[1].Port, right.Sent()[1].Port, string(left.Sent()[0].Data), string(right.Sent()[1].Data)})
	var got []any
	_ = json.Unmarshal(text, &got)
	for i, want := range []any{1.0, "left", "right", `{"n":1}`, `{"html":"<&>"}`} {
		if got[i] != want {
			t.Errorf("%d: got %v, want %v", i, got[i], want)
		}
	}
	many := flowdsl.NodeOutput{}
	for i := range 100_000 {
		many = many.Send("out", map[string]any{"i": i})
	}
	if sent := many.Sent(); len(sent) != 100_000 || string(sent[99_999].Data) != `{"i":99999}` {
		t.Error("packets are missing or out of order")
	}
}

func TestOutputThatIsNoObject(t *testing.T) {
	for _, data := range []any{nil, 5, "x", []any{}, map[string]any{"f": func() {}}, json.RawMessage("{"), json.RawMessage("[]")} {
		node := flowdsl.NodeFunc("bad", func(context.Context, flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
			return flowdsl.NodeOutput{}.Send("out", data).Send("out", map[string]any{}), nil
		})
		if _, err := flowdsl.Deliver(context.Background(), node, flowdsl.MockNodeInput("in", flowdsl.NewPacket(nil))); flowdsl.CodeOf(err) != flowdsl.ErrCodeValidation {
			t.Errorf("%v: %v", data, err)
		}
	}
}

func TestExtraMembers(t *testing.T) {
	type plain struct {
		ID int64 `json:"id"`
	}
	var fields plain
	var extra map[string]any
	if err := flowdsl.UnmarshalWithExtra([]byte(`{"id":1,"a":"x","b":[2]}`), &fields, &extra, "id"); err != nil {
		t.Fatal(err)
	}
	extra["id"] = "not this one"
	text, err := flowdsl.MarshalWithExtra(fields, extra)
	if err != nil || string(text) != `{"a":"x","b":[2],"id":1}` {
		t.Fatal(string(text), err)
	}
	var numbers map[string]int
	if err := flowdsl.UnmarshalWithExtra([]byte(`{"id":1,"a":"x"}`), &fields, &numbers, "id"); err == nil {
		t.Fatal("a member of the wrong type was accepted")
	}
}
