// JSON for a terminal.

package text

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

// TestJSONHasNoControlCharacters: the escaped form decodes to the same value; other text is
// unchanged.
func TestJSONHasNoControlCharacters(t *testing.T) {
	all := make([]rune, 0x110)
	for i := range all {
		all[i] = rune(i)
	}
	for _, s := range []string{string(all), "", "plain", "\u009b2J", "\x7f", "Käse", "日本", "x\u0085"} {
		var b bytes.Buffer
		if err := json.NewEncoder(JSONWriter(&b)).Encode(s); err != nil {
			t.Fatalf("Encode: %v", err)
		}
		line := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		if i := bytes.IndexFunc(line, unicode.IsControl); i >= 0 {
			t.Errorf("%q: %q", s, line[i:])
		}
		var got string
		if err := json.Unmarshal(line, &got); err != nil || got != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
		var array bytes.Buffer
		a := NewJSONArray(&array)
		a.Item(s)
		a.End()
		if !bytes.Contains(array.Bytes(), line) {
			t.Errorf("%q is not in an array as %q: %q", s, line, array.Bytes())
		}
	}
}
