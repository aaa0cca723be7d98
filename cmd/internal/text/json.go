// JSON that is safe for a terminal.

package text

import (
	"io"
	"unicode/utf8"
)

// A jsonWriter escapes JSON and writes it to w.
type jsonWriter struct{ w io.Writer }

// JSONWriter returns a writer of JSON to w. It escapes the characters that encoding/json leaves:
// DEL, and the control characters U+0080 to U+009F, one of which starts terminal sequences like ESC
// [ (ECMA-48 §5.3). JSON has these only in strings. Each Write must have whole characters, as from
// a json.Encoder.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

func (j jsonWriter) Write(b []byte) (int, error) {
	if _, err := j.w.Write(EscapeJSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// EscapeJSON returns b, which is JSON, or an escaped copy; see JSONWriter.
func EscapeJSON(b []byte) []byte {
	const digits = "0123456789abcdef"
	var out []byte
	from := 0 // the bytes before from are in out
	for i := 0; i < len(b); {
		r, n := rune(b[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(b[i:])
		}
		if r >= 0x7f && r < 0xa0 {
			out = append(out, b[from:i]...)
			out = append(out, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return b
	}
	return append(out, b[from:]...)
}
