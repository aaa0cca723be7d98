// Arbitrary bytes as each procedure's arguments and result.

package nfs3

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// FuzzMessages: the first byte selects the message: arguments if it is even, a result if it is odd.
// A decoded message must encode to bytes that decode to the same message.
func FuzzMessages(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 2 * len(messages) {
		for range 4 {
			m := pick(byte(i))
			fill(r, m)
			f.Add(append([]byte{byte(i)}, whole(m)...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		m, back := pick(b[0]), pick(b[0])
		d := xdr.NewDecoder(b[1:])
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := whole(m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(whole(back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}

func pick(i byte) message {
	p := messages[int(i>>1)%len(messages)]
	if i&1 == 1 {
		return p.res()
	}
	return p.args()
}
