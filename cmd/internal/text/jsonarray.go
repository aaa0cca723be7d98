// A JSON array that is written as its items become known.

package text

import (
	"encoding/json"
	"io"
)

// A JSONArray writes an array to w, each item when it is there: a listing of any
// size needs the memory of one. Errors are w's to remember, as bufio.Writer does.
type JSONArray struct {
	w io.Writer
	n int // items so far
}

// NewJSONArray starts an array on w; nothing is written yet.
func NewJSONArray(w io.Writer) *JSONArray { return &JSONArray{w: w} }

// Item writes the next item, which json can encode whatever its values are.
func (a *JSONArray) Item(v any) {
	sep := ",\n"
	if a.n == 0 {
		sep = "[\n"
	}
	a.n++
	b, _ := json.Marshal(v)
	io.WriteString(a.w, sep)
	a.w.Write(EscapeJSON(b))
}

// End writes the end of the array, which is whole then, of no items too.
func (a *JSONArray) End() {
	if a.n == 0 {
		io.WriteString(a.w, "[")
	}
	io.WriteString(a.w, "\n]\n")
}
