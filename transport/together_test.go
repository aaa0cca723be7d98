// Replies held back for other calls' replies.

package transport

import (
	"math"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A short reply that had to wait, though its procedure usually does not, is sent together with
// others, if there are any.
func TestRepliesOfCallsThatWaited(t *testing.T) {
	inline, other := &Procedure{Inline: true}, &Procedure{}
	short, long := make([]byte, 4096), make([]byte, 64<<10)
	for _, c := range []struct {
		name  string
		call  Call
		data  []byte
		calls int
		want  bool
	}{
		{"waited", Call{proc: inline, standing: standsApart}, short, 2, true},
		{"the only call", Call{proc: inline, standing: standsApart}, short, 1, false},
		{"on the receive loop", Call{proc: inline}, short, 2, false},
		{"a procedure that always waits", Call{proc: other, standing: standsApart}, short, 2, false},
		{"no procedure", Call{}, short, 2, false},
		{"long", Call{proc: inline, standing: standsApart}, long, 2, false},
	} {
		var r rdmaConn
		r.calls.init(math.MaxInt, math.MaxInt64)
		for range c.calls {
			r.calls.tryEnter()
		}
		if got := r.together(&c.call, chunks.Message{Stream: make([]byte, 100), Items: []xdr.Item{{Data: c.data}}}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
