// Large transfers let others run.

package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"
)

// gaveWay counts calls of giveWay, of all connections.
var gaveWay atomic.Int64

// countBursts is giveWay in tests.
func countBursts() { gaveWay.Add(1) }

const transferred = 8 << 20

func wantBursts(t *testing.T, before int64) {
	t.Helper()
	if n := gaveWay.Load() - before; n < transferred/(2*burstBytes) || n > transferred/burstBytes {
		t.Errorf("others could run %d times during %d bytes", n, transferred)
	}
}

// A piecewise reader gives 64 KiB at most, as sockets give less than was asked for.
type piecewise struct{ r io.Reader }

func (p piecewise) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 64<<10)]) }

func TestReceivingGivesWay(t *testing.T) {
	mark := binary.BigEndian.AppendUint32(nil, 1<<31|transferred)
	r := newRecordReader(piecewise{bytes.NewReader(append(mark, make([]byte, transferred)...))}, tcpWindow, transferred)
	before := gaveWay.Load()
	rec, err := r.next()
	if err != nil {
		t.Fatal(err)
	}
	rec.Put()
	wantBursts(t, before)
}
