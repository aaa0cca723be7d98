// Arbitrary bytes from a peer that may begin a TLS session.

package transport

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// FuzzServerFirstBytes: whatever bytes a peer begins with, its answers in clear are replies, and
// none follows the answer to a probe.
func FuzzServerFirstBytes(f *testing.F) {
	f.Add(probeBytes())
	f.Add(append(probeBytes(), 0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0))
	f.Add(append(record(0), probeBytes()...))
	f.Add(append(probeBytes(), record(0)...))
	f.Add([]byte{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		c := newTCPConn(s, theirs)
		if !s.add(c, theirs.RemoteAddr()) {
			t.Fatal("refused")
		}
		go c.begin()
		answers := make(chan []byte)
		go func() {
			got, _ := io.ReadAll(ours)
			answers <- got
		}()
		ours.Write(b)
		c.close()
		got := bytes.NewReader(<-answers)
		ours.Close()
		rd := newRecordReader(got, 16, 1<<20)
		for secure := false; ; {
			rec, err := rd.next()
			if err != nil { // the end, a reply cut by close, or a TLS alert
				break
			}
			if secure {
				t.Fatalf("a record of %d bytes in clear after the answer to a probe", len(rec.B))
			}
			var h oncrpc.ReplyHeader
			d := xdr.NewDecoder(rec.B)
			if h.DecodeXDR(d); d.Err() != nil {
				t.Fatalf("% x is no reply: %v", rec.B, d.Err())
			}
			secure = bytes.Equal(h.Verf.Body, startTLS)
			rec.Put()
		}
	})
}
