// Any bytes, read as a header and as private data.

package rpcrdma

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func FuzzParse(f *testing.F) {
	for _, g := range goldenHeaders {
		f.Add(must.Hex(f, g.wire))
	}
	f.Add([]byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePrivateData(b)
		if again, _ := ParsePrivateData(AppendPrivateData(nil, p)); again != p {
			t.Fatalf("%+v became %+v", p, again)
		}
		if !ok && p != defaultPrivateData {
			t.Fatalf("%+v", p)
		}
		var h Header
		if h.Parse(b) != nil {
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:h.Len]) || h.Size() != h.Len {
			t.Fatalf("%x\n%x", b[:h.Len], got)
		}
	})
}
