// Fuzz targets for decoders: control messages, handshake messages, key log lines, record framing.

package ktls

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

func FuzzRecordType(f *testing.F) {
	f.Add(recordTypeMessage(typeAlert))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, oob []byte) {
		_, _ = parseRecordType(oob)
	})
}

// The message for writing differs from the one for reading in its type.
func TestRecordTypeMessage(t *testing.T) {
	b := recordTypeMessage(typeHandshake)
	if got, err := parseRecordType(b); got != typeData || err != nil {
		t.Errorf("a message for writing: type %d, %v; want it ignored", got, err)
	}
	b[bytes.LastIndexByte(b, setRecordType)] = getRecordType
	if got, err := parseRecordType(b); got != typeHandshake || err != nil {
		t.Errorf("type %d, %v; want %d", got, err, typeHandshake)
	}
}

// Messages do not depend on the records that carry them.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{newSessionTicket, 0, 0, 1, 7, keyUpdate, 0, 0, 1, 0}, uint8(3))
	f.Add([]byte{keyUpdate, 0, 0, 1, 1}, uint8(1))
	f.Add([]byte{newSessionTicket, 255, 255, 255}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		whole := collect(t, b, len(b)+1)
		parts := collect(t, b, int(piece)+1)
		if !bytes.Equal(whole, parts) {
			t.Errorf("in one record %x, in records of %d bytes %x", whole, int(piece)+1, parts)
		}
		if !bytes.HasPrefix(b, whole) {
			t.Errorf("messages %x are not the beginning of %x", whole, b)
		}
	})
}

// collect joins the messages of a stream that comes in pieces.
func collect(t *testing.T, b []byte, piece int) (all []byte) {
	var m messages
	for len(b) > 0 {
		n := min(piece, len(b))
		m.add(b[:n])
		b = b[n:]
		for {
			kind, body, err := m.next()
			if err != nil {
				return all
			}
			if body == nil {
				break
			}
			all = append(all, kind, byte(len(body)>>16), byte(len(body)>>8), byte(len(body)))
			all = append(all, body...)
		}
	}
	return all
}

func FuzzKeyLog(f *testing.F) {
	f.Add([]byte("CLIENT_TRAFFIC_SECRET_0 00 " + clientSecret + "\n"))
	f.Add([]byte("SERVER_TRAFFIC_SECRET_0 00 zz\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := new(secrets)
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Errorf("Write: %d, %v; want %d", n, err, len(line))
		}
	})
}

// A recordConn returns the same bytes as its connection, and no read goes beyond a record.
func FuzzRecordConn(f *testing.F) {
	f.Add([]byte{22, 3, 3, 0, 2, 1, 2, 23, 3, 3, 0, 1, 9}, uint8(7))
	f.Add([]byte{22, 3, 3, 0, 0, 23, 3, 3, 255, 255, 9}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		ends := map[int]bool{}
		for at := 0; at+headerLength <= len(b); {
			at += headerLength + int(b[at+3])<<8 + int(b[at+4])
			ends[at] = true
		}
		r := &recordConn{Conn: readerConn{Reader: iotest.HalfReader(bytes.NewReader(b))}, limited: true}
		var got []byte
		p := make([]byte, int(size)+1)
		for {
			n, err := r.Read(p)
			for at := len(got) + 1; at < len(got)+n; at++ {
				if ends[at] {
					t.Fatalf("a read of bytes %d to %d goes beyond the record's end at %d", len(got), len(got)+n, at)
				}
			}
			if got = append(got, p[:n]...); err == io.EOF {
				break
			}
			if r.within() == (ends[len(got)] || len(got) == 0) {
				t.Fatalf("at %d: within a record %v, want %v", len(got), r.within(), !r.within())
			}
		}
		if !bytes.Equal(got, b) {
			t.Errorf("%x, want %x", got, b)
		}
	})
}

// A readerConn is a connection that can only be read.
type readerConn struct {
	net.Conn
	io.Reader
}

func (r readerConn) Read(p []byte) (int, error) { return r.Reader.Read(p) }
