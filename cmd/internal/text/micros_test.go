// Microseconds in JSON: seconds, without rounding errors from the conversion.

package text

import (
	"encoding/json"
	"testing"
)

func TestMicros(t *testing.T) {
	for us, want := range map[Micros]string{0: "0", 25: "0.000025", 0.1: "0.0000001", 1234567.891: "1.234567891", 20.3: "0.0000203"} {
		b, err := json.Marshal(us)
		if err != nil || string(b) != want {
			t.Errorf("%v: %s, %v, want %s", float64(us), b, err, want)
		}
		var back Micros
		if err := json.Unmarshal(b, &back); err != nil || back != us {
			t.Errorf("%s is read as %v, %v, want %v", b, float64(back), err, float64(us))
		}
	}
}
