// The limit: data sent and stored by the peer, errors for wrong bytes, and the limit for each test.

package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// pieceAt returns the memory file's content at each multiple of limitPiece.
func pieceAt() []byte {
	p := make([]byte, limitPiece)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

// Every kind of reading returns the file's bytes from the start, with a CRC after each piece where
// required.
func TestPeerSendsItsFile(t *testing.T) {
	addr, stop := startRawPeer(t)
	defer stop()
	want := pieceAt()
	for _, kind := range []byte{limitRead, limitReadCRC, limitSendfile} {
		conn, err := rawDial(addr, kind)
		if err != nil {
			t.Fatalf("rawDial: %v", err)
		}
		got, sum := make([]byte, limitPiece), make([]byte, crcSize)
		for i := range 3 {
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%c: piece %d is wrong, %v", kind, i, err)
			}
			if kind != limitReadCRC {
				continue
			}
			if _, err := io.ReadFull(conn, sum); err != nil || binary.BigEndian.Uint32(sum) != crc32.Checksum(want, castagnoli) {
				t.Fatalf("piece %d: CRC %x, %v", i, sum, err)
			}
		}
		conn.Close()
	}
}

// The file starts over at its end, with each way of sending.
func TestSentFileStartsOver(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatalf("os.CreateTemp: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteString("abc"); err != nil {
		t.Fatalf("WriteString: %v", err)
	}
	ours, theirs := tcpPair(t)
	ended := make(chan error, 1)
	go func() { ended <- sendFile(theirs, f) }()
	got := make([]byte, 7)
	if _, err := io.ReadFull(ours, got); err != nil || string(got) != "abcabca" {
		t.Errorf("%q, %v", got, err)
	}
	ours.Close()
	if err := <-ended; err == nil {
		t.Error("it sends to nobody")
	}
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Received pieces are in the file, in order; the count excludes CRCs.
func TestReceivedPiecesAreStored(t *testing.T) {
	for _, crc := range []bool{false, true} {
		f, err := memoryFile()
		if err != nil {
			t.Fatalf("memoryFile: %v", err)
		}
		defer f.Close()
		ours, theirs := tcpPair(t)
		go func() {
			defer ours.Close()
			for i := range 2 {
				p := bytes.Repeat([]byte{byte(100 + i)}, limitPiece)
				ours.Write(p)
				if crc {
					binary.Write(ours, binary.BigEndian, crc32.Checksum(p, castagnoli))
				}
			}
		}()
		if n, err := receivePieces(theirs, f, crc); err != nil || n != 2*limitPiece {
			t.Errorf("%d bytes, %v", n, err)
		}
		for i, want := range []byte{100, 101, 0} { // the third piece still has memoryFile's content
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, int64(i)*limitPiece); err != nil || b[0] != want {
				t.Errorf("CRC %v: piece %d begins with %d, want %d, %v", crc, i, b[0], want, err)
			}
		}
	}
}

// A piece with a wrong CRC, or half a piece, ends the measurement at the peer, and then at our end,
// because the count never arrives.
func TestWrongPieceIsRefusedByThePeer(t *testing.T) {
	addr, stop := startRawPeer(t)
	defer stop()
	for name, sent := range map[string][]byte{
		"wrong CRC": append(pieceAt(), 1, 2, 3, 4), "half a piece": pieceAt()[:limitPiece/2],
	} {
		conn, err := rawDial(addr, limitWriteCRC)
		if err != nil {
			t.Fatalf("rawDial: %v", err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("io.ReadFull: %v", err)
		}
		conn.Write(sent)
		conn.(*net.TCPConn).CloseWrite()
		var n uint64
		if err := binary.Read(conn, binary.BigEndian, &n); err == nil {
			t.Errorf("%s: it counted %d bytes", name, n)
		}
		conn.Close()
	}
}

// answering starts a peer that serves each connection with f, and returns its address.
func answering(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.ReadFull(conn, make([]byte, 1)) // the kind
				f(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func TestWrongAnswersAreNoLimit(t *testing.T) {
	addr := answering(t, func(c net.Conn) { c.Write(append(pieceAt(), 0, 0, 0, 0)) })
	if rate, err := limitReadRate(addr, limitReadCRC, time.Hour); !errors.Is(err, errLimitCRC) {
		t.Errorf("a wrong CRC: %v, %v", rate, err)
	}
	addr = answering(t, func(c net.Conn) { c.Write(pieceAt()) })
	if rate, err := limitReadRate(addr, limitRead, time.Hour); err == nil {
		t.Errorf("a peer that stops: %v", rate)
	}
	addr = answering(t, func(c net.Conn) {
		c.Write([]byte{limitWrite})
		n, _ := io.Copy(io.Discard, c)
		binary.Write(c, binary.BigEndian, uint64(n-1))
	})
	if rate, err := limitWriteRate(addr, limitWrite, 0); err == nil || err.Error() != "raw TCP lost data" {
		t.Errorf("a wrong count: %v, %v", rate, err)
	}
}

// Only the requested limits are measured. Each figure covers at least one piece, even if the time
// is 0.
func TestLimitsAreMeasured(t *testing.T) {
	addr, stop := startRawPeer(t)
	l, err := measureLimits(addr, 0, true, true)
	if least := min(l.Read, l.ReadCRC, l.Sendfile, l.Write, l.WriteCRC); err != nil || least <= 0 {
		t.Errorf("measureLimits: %+v, %v, want all above 0", l, err)
	}
	if l, err := measureLimits(addr, 0, false, false); err != nil || l != (limitReport{}) {
		t.Errorf("%+v, %v", l, err)
	}
	stop()
	for _, reads := range []bool{true, false} {
		if l, err := measureLimits(addr, 0, reads, !reads); err == nil {
			t.Errorf("with nobody: %+v", l)
		}
	}
}

func TestLimitOfATest(t *testing.T) {
	l := limitReport{Read: 1, ReadCRC: 2, Sendfile: 3, Write: 4, WriteCRC: 5}
	for _, c := range []struct {
		test, crc string
		want      float64
	}{
		{"read", "on", 2}, {"read", "off", 3}, {"read", "", 3}, {"read", "auto", 0},
		{"write", "on", 5}, {"write", "off", 4}, {"write", "", 4}, {"write", "auto", 0}, {"randread", "on", 0}, {"null", "", 0},
	} {
		if got := l.forTest(c.test, c.crc); got != c.want {
			t.Errorf("%s, CRC %q: %v, want %v", c.test, c.crc, got, c.want)
		}
	}
	if got := (limitReport{Read: 7, Sendfile: 3}).forTest("read", ""); got != 7 {
		t.Errorf("the better of pread and sendfile: %v", got)
	}
	if got := l.mean(limitReport{3, 4, 5, 6, 7}); got != (limitReport{2, 3, 4, 5, 6}) {
		t.Errorf("mean: %+v", got)
	}
	rows := l.named()
	if len(rows) != 5 || rows[0].rate != 2 || !strings.Contains(rows[0].name, "CRC") || len(limitReport{Write: 1}.named()) != 1 {
		t.Errorf("%+v", rows)
	}
}
