// Large transfers yield.

package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A piecewise reader returns at most 64 KiB, as sockets return less than requested.
type piecewise struct{ r io.Reader }

func (p piecewise) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 64<<10)]) }

func TestReceivingYields(t *testing.T) {
	const transferred = 8 << 20
	const least, most = transferred / (2 * wait.BurstBytes), transferred / wait.BurstBytes
	mark := binary.BigEndian.AppendUint32(nil, 1<<31|transferred)
	r := newRecordReader(piecewise{bytes.NewReader(append(mark, make([]byte, transferred)...))}, tcpWindow, transferred)
	rec, err := r.next()
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	rec.Put()
	if n := r.burst.Yields(); n < least || n > most {
		t.Errorf("%d yields during %d bytes, want %d to %d", n, transferred, least, most)
	}
}
