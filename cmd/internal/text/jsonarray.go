// A JSON array, written item by item.

package text

import (
	"encoding/json"
	"io"
)

// A JSONArray writes an array to w, each item as it arrives, so a listing of any size takes the
// memory of one item. It ignores write errors, so w must keep them, like bufio.Writer.
type JSONArray struct {
	w io.Writer
	n int // items so far
}

// NewJSONArray starts an array on w; nothing is written yet.
func NewJSONArray(w io.Writer) *JSONArray { return &JSONArray{w: w} }

// Item writes the next item. v must be encodable with any values.
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

// End completes the array, also an empty one.
func (a *JSONArray) End() {
	if a.n == 0 {
		io.WriteString(a.w, "[")
	}
	io.WriteString(a.w, "\n]\n")
}
