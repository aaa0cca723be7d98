// Large transfers let others run.

package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
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

type patient struct{}

func (patient) wait()           {}
func (patient) goOn(int64) bool { return true }

func TestSplicingGivesWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute); err == nil {
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const piece = 128 << 10
	if err := f.Truncate(piece); err != nil {
		t.Fatal(err)
	}
	s, before := newSplicer(c), gaveWay.Load()
	for range transferred / piece {
		sendFile(t, s, f, piece)
	}
	wantBursts(t, before)
}

func sendFile(t *testing.T, s *splicer, f *os.File, n int) {
	t.Helper()
	p := mem.GetPipe()
	if p == nil {
		t.Fatal("no pipe")
	}
	defer p.Put()
	if got, err := p.Fill(int(f.Fd()), 0, n); got != n {
		t.Fatal(got, err)
	}
	if err := s.send(nil, p, n, false, patient{}); err != nil {
		t.Fatal(err)
	}
}

// Beside small replies a transfer is cut into pieces; where there were none for some pieces it moves all at once. Large replies change nothing.
func TestTransfersAreCutBesideSmallReplies(t *testing.T) {
	var u usage
	var p pieces
	p.next(1)                      // what other tests have replied
	for p.left = 0; ; p.left = 0 { // and what a worker of theirs still may
		if _, cut := p.next(transferred); !cut {
			break
		}
	}
	u.sent(smallRecord + 1)
	if n, cut := p.next(transferred); n != transferred || cut {
		t.Fatalf("%d bytes at once after a large reply", n)
	}
	u.sent(smallRecord)
	for i := range piecesAfter {
		if n, cut := p.next(transferred); n != burstBytes || !cut {
			t.Fatalf("piece %d after a small reply has %d bytes", i, n)
		}
	}
	if n, cut := p.next(transferred); n != transferred || cut {
		t.Errorf("%d bytes at once after the last piece", n)
	}
	u.sent(1)
	if n, cut := p.next(100); n != 100 || !cut {
		t.Errorf("a rest of 100 bytes moves as %d", n)
	}
	if n := u.out.Load(); n != 2*smallRecord+2 {
		t.Errorf("%d bytes counted", n)
	}
}

// A transfer from a file beside small replies lets others run after each piece, and all of it arrives.
func TestSplicingIsCutBesideSmallReplies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan []byte, 1)
	go func() {
		c, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute)
		if err != nil {
			got <- nil
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		got <- b
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20/16)
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	smallReplies.Add(1)
	s, before := newSplicer(c), gaveWay.Load()
	sendFile(t, s, f, len(want))
	c.Close()
	if b := <-got; !bytes.Equal(b, want) {
		t.Errorf("%d bytes arrived, or others", len(b))
	}
	if n := gaveWay.Load() - before; n < int64(len(want)/burstBytes) {
		t.Errorf("others could run %d times", n)
	}
}
