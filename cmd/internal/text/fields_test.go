// Fields of structs in JSON: their keys, and times in seconds.

package text

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestFields(t *testing.T) {
	type row struct {
		RoundTripP99 time.Duration
		CRC, Up      bool
	}
	v := struct {
		Age    time.Duration
		Calls  map[string]row
		Rows   []row
		Times  []uint64
		hidden int
	}{1500 * time.Millisecond, map[string]row{"READ": {RoundTripP99: time.Microsecond}}, []row{{CRC: true}}, []uint64{1, 2}, 0}
	got, err := json.Marshal(Fields(reflect.ValueOf(v)))
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	const want = `{"age_seconds":1.5,"calls":{"READ":{"crc":false,"round_trip_p99_seconds":0.000001,"up":false}},` +
		`"rows":[{"crc":true,"round_trip_p99_seconds":0,"up":false}],"times":[1,2]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_ = v.hidden
}
