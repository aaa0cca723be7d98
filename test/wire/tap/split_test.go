// Splitting changes where segments end, never their content.

package tap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
)

// stream returns an MPA frame and FPDUs of the given ULPDU lengths, and where each ends.
func stream(lengths ...int) (b []byte, ends []int) {
	b = append([]byte("MPA ID Rep Frame\x50\x02\x00\x04"), 0, 0, 0, 16)
	ends = append(ends, len(b))
	for i, l := range lengths {
		f := make([]byte, 2+l+(-(2+l)&3)+4)
		binary.BigEndian.PutUint16(f, uint16(l))
		for j := range f[2:] {
			f[2+j] = byte(i + j)
		}
		b = append(b, f...)
		ends = append(ends, len(b))
	}
	return b, ends
}

// through sends bytes through a tap, in one piece and with the end of the stream, and returns the
// output as it was read.
func through(t *testing.T, b []byte, at func(fpdu []byte) int) (pieces [][]byte) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	tp, err := New("127.0.0.1", fmt.Sprint(ln.Addr()), nil)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer tp.Close()
	tp.Split(ToClient, at)
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", tp.Port()))
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	s, err := ln.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if _, err := s.Write(b); err != nil {
		t.Fatalf("s.Write: %v", err)
	}
	s.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			pieces = append(pieces, bytes.Clone(buf[:n]))
		}
		if err == io.EOF {
			return pieces
		}
		if err != nil {
			t.Fatalf("c.Read: %v", err)
		}
	}
}

func TestSplit(t *testing.T) {
	b, ends := stream(100, 101, 1, 4000)
	var seen []int
	pieces := through(t, b, func(fpdu []byte) int {
		seen = append(seen, len(fpdu))
		return len(fpdu) - 3
	})
	for i, n := range seen {
		if n != ends[i+1]-ends[i] {
			t.Errorf("FPDU %d has %d bytes, asked about %d", i, ends[i+1]-ends[i], n)
		}
	}
	if !bytes.Equal(bytes.Join(pieces, nil), b) {
		t.Error("other bytes came out than went in")
	}
	if len(seen) != 4 || len(pieces) < 5 {
		t.Errorf("%d FPDUs in %d pieces", len(seen), len(pieces))
	}
}

// TestSplitOddStreams: a stream that ends inside an FPDU, or is not MPA, passes unchanged.
func TestSplitOddStreams(t *testing.T) {
	b, _ := stream(100, 101)
	for _, b := range [][]byte{b[:len(b)-5], b[:10], []byte("\x80\x00\x00\x28 a record of ONC RPC over TCP, say")} {
		if got := slices.Concat(through(t, b, func(fpdu []byte) int { return 1 })...); !bytes.Equal(got, b) {
			t.Errorf("%q became %q", b, got)
		}
	}
}
