// Tests for validation: Linux's traffic passes, and each kind of mistake is noticed.

package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"
)

func linuxCapture(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open("../capture/testdata/" + name + ".pcap.gz")
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return b
}

func TestLinuxTrafficIsLawful(t *testing.T) {
	for name, want := range map[string]Report{
		"small": {Calls: 13, Writes: 4, LongReplies: 1},
		"ops":   {Calls: 149, Writes: 32, Reads: 8, LongReplies: 9},
		"io1m":  {Calls: 34, Writes: 58, Reads: 8, LongReplies: 1},
	} {
		r, err := validate(bytes.NewReader(linuxCapture(t, name)))
		if err != nil {
			t.Fatalf("validate: %v", err)
		}
		for _, v := range r.Violations {
			t.Errorf("%s: %v", name, v)
		}
		if r.Calls != want.Calls || r.Replies != want.Calls || r.Writes != want.Writes || r.Reads != want.Reads || r.LongReplies != want.LongReplies {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestTruncatedCaptures: a capture cut short anywhere is refused or validated, without a panic.
func TestTruncatedCaptures(t *testing.T) {
	b := linuxCapture(t, "small")
	for n := range b {
		validate(bytes.NewReader(b[:n]))
	}
}

// talk builds one connection, message by message, and validates it.
type talk struct {
	c     *conn
	frame int
	msn   [2]uint32
}

func newTalk(crc bool) *talk {
	t := &talk{c: newConn(new(Report))}
	for dir, key := range keys {
		b := append([]byte(key), 0x10, 2, 0, 12, 0, 4, 0, 4, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3)
		if crc {
			b[16] |= 0x40
		}
		t.c.take(chunk{dir: dir, data: b})
	}
	return t
}

func (t *talk) fpdu(dir int, ulpdu []byte, spoil bool) {
	t.frame++
	b := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	b = append(b, make([]byte, -len(b)&3)...)
	crc := crc32.Checksum(b, castagnoli)
	if spoil {
		crc ^= 1
	}
	t.c.take(chunk{frame: t.frame, dir: dir, data: binary.LittleEndian.AppendUint32(b, crc)})
}

func (t *talk) send(dir int, op opcode, stag uint32, message ...any) {
	t.msn[dir]++
	head := append([]byte{0x41, 0x40 | byte(op)}, encode(stag, uint32(0), t.msn[dir], uint32(0))...)
	t.fpdu(dir, append(head, encode(message...)...), false)
}

func (t *talk) tagged(dir int, op opcode, stag uint32, offset uint64, n int) {
	head := append([]byte{0xc1, 0x40 | byte(op)}, encode(stag, offset)...)
	t.fpdu(dir, append(head, make([]byte, n)...), false)
}

func (t *talk) read(dir int, n, source uint32, offset uint64) {
	head := append([]byte{0x41, 0x41}, encode(uint32(0), uint32(1), uint32(1), uint32(0))...)
	t.fpdu(dir, append(head, encode(uint32(0x51), uint64(0), n, source, offset)...), false)
}

func encode(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if i, ok := v.(int); ok {
			v = uint32(i)
		}
		binary.Write(&b, binary.BigEndian, v)
	}
	return b.Bytes()
}

const xid = 0x1234

// callWith sends a call with a Read chunk (100 bytes) and a Write chunk in two segments (50 bytes
// each).
func (t *talk) callWith() {
	t.send(0, opSend, 0, xid, 1, 32, 0,
		1, 80, 0xaa, 100, uint64(0x7000), 0,
		1, 2, 0xbb, 50, uint64(0x8000), 0xcc, 50, uint64(0x9000), 0, 0, xid, 0)
}

func (t *talk) replyWith(first, second int) {
	t.send(1, opSend, 0, xid, 1, 32, 0, 0, 1, 2, 0xbb, first, uint64(0x8000), 0xcc, second, uint64(0x9000), 0, 0, xid, 1)
}

func (t *talk) null(dir, id, credits int) {
	t.send(dir, opSend, 0, id, 1, credits, 0, 0, 0, 0, id, dir)
}

func TestValidateNotices(t *testing.T) {
	for _, c := range []struct {
		name, want string // "" wants silence
		talk       func(t *talk)
	}{
		{"a lawful call", "", func(t *talk) {
			t.callWith()
			t.read(1, 100, 0xaa, 0x7000)
			t.tagged(0, opReadResponse, 0x51, 0, 100)
			t.tagged(1, opWrite, 0xbb, 0x8000, 50)
			t.tagged(1, opWrite, 0xcc, 0x9000, 7)
			t.replyWith(50, 7)
		}},
		{"credits exceeded", "2 calls outstanding with 1 credits", func(t *talk) { t.null(0, 1, 8); t.null(0, 2, 8) }},
		{"credits within the grant", "", func(t *talk) { t.null(0, 1, 8); t.null(1, 1, 2); t.null(0, 2, 8); t.null(0, 3, 8) }},
		{"credits beyond what was asked", "3 calls outstanding with 2 credits", func(t *talk) {
			t.null(0, 1, 2)
			t.null(1, 1, 9)
			t.null(0, 2, 2)
			t.null(0, 3, 2)
			t.null(0, 4, 2)
		}},
		{"a grant of zero", "credit value of zero", func(t *talk) { t.null(0, 1, 8); t.null(1, 1, 0) }},
		{"a reply to no call", "a reply to no call", func(t *talk) { t.null(1, 1, 8) }},
		{"another XID inside", "is another", func(t *talk) { t.send(0, opSend, 0, 1, 1, 8, 0, 0, 0, 0, 2, 0) }},
		{"a write beyond its segment", "no outstanding call", func(t *talk) { t.callWith(); t.tagged(1, opWrite, 0xbb, 0x8000, 51) }},
		{"a write to a Read chunk", "no outstanding call", func(t *talk) { t.callWith(); t.tagged(1, opWrite, 0xaa, 0x7000, 1) }},
		{"a write after the reply", "no outstanding call", func(t *talk) { t.callWith(); t.replyWith(0, 0); t.tagged(1, opWrite, 0xbb, 0x8000, 1) }},
		{"a write by the client", "which has none", func(t *talk) { t.tagged(0, opWrite, 1, 0, 1) }},
		{"a read beyond its segment", "no outstanding call", func(t *talk) { t.callWith(); t.read(1, 101, 0xaa, 0x7000) }},
		{"a short read response", "ends 1 bytes early", func(t *talk) {
			t.callWith()
			t.read(1, 100, 0xaa, 0x7000)
			t.tagged(0, opReadResponse, 0x51, 0, 99)
		}},
		{"a length that was not written", "0 bytes were written", func(t *talk) { t.callWith(); t.replyWith(1, 0) }},
		{"a gap between segments", "is not full", func(t *talk) {
			t.callWith()
			t.tagged(1, opWrite, 0xcc, 0x9000, 7)
			t.replyWith(0, 7)
		}},
		{"a Write chunk not echoed", "0 Write chunks", func(t *talk) { t.callWith(); t.null(1, xid, 8) }},
		{"a foreign segment", "is not the call's", func(t *talk) {
			t.callWith()
			t.send(1, opSend, 0, xid, 1, 32, 0, 0, 1, 2, 0xbb, 0, uint64(0x8001), 0xcc, 0, uint64(0x9000), 0, 0, xid, 1)
		}},
		{"a foreign STag invalidated", "did not advertise", func(t *talk) {
			t.callWith()
			t.send(1, opSendInvalidate, 0xdd, xid, 1, 32, 0, 0, 1, 2, 0xbb, 0, uint64(0x8000), 0xcc, 0, uint64(0x9000), 0, 0, xid, 1)
		}},
		{"a Reply chunk from nowhere", "did not offer", func(t *talk) {
			t.null(0, 1, 8)
			t.send(1, opSend, 0, 1, 1, 8, 0, 0, 0, 1, 1, 0xee, 0, uint64(0), 1, 1)
		}},
		{"a wrong CRC", "CRC is wrong", func(t *talk) {
			t.fpdu(0, append([]byte{0x41, 0x43}, encode(0, 0, 1, 0, 1, 1, 8, 0, 0, 0, 0, 1, 0)...), true)
		}},
		{"a message out of turn", "follows message", func(t *talk) { t.msn[0]++; t.null(0, 1, 8) }},
		{"too much inline", "the limit is 4096", func(t *talk) {
			t.send(0, opSend, 0, 1, 1, 8, 0, 0, 0, 0, 1, 0, make([]byte, 4096))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			talk := newTalk(true)
			c.talk(talk)
			var all []string
			for _, v := range talk.c.r.Violations {
				all = append(all, v.String())
			}
			got := strings.Join(all, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// terminates makes one side end the stream as siw does, with a layer 2 code.
func (t *talk) terminates(dir int, code byte) { t.terminate(dir, 0x02, code) }

func (t *talk) terminate(dir int, layer, code byte) {
	head := append([]byte{0x41, 0x47}, encode(uint32(0), uint32(2), uint32(1), uint32(0))...)
	t.fpdu(dir, append(head, layer, code, 0, 0), false)
}

// TestValidateKnowsSiw: siw's own faults are distinguished from ours.
func TestValidateKnowsSiw(t *testing.T) {
	for _, c := range []struct {
		name string
		crc  bool
		talk func(t *talk)
		want Report
	}{
		{"a good CRC is refused", true, func(t *talk) { t.null(0, xid, 1); t.null(1, xid, 1); t.null(0, xid+1, 1); t.terminates(0, 2) }, Report{Misread: 1}},
		{"a bad one is refused", true, func(t *talk) {
			t.fpdu(1, []byte{0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true)
			t.terminates(0, 2)
		},
			Report{Terminates: make([]string, 1)}},
		{"by another than siw", true, func(t *talk) { t.null(0, xid, 1); t.null(1, xid, 1); t.terminate(0, 0x20, 2) }, Report{Terminates: make([]string, 1)}},
		{"another reason", true, func(t *talk) { t.null(0, xid, 1); t.null(1, xid, 1); t.terminates(0, 6) }, Report{Terminates: make([]string, 1)}},
		{"CRCs are off", false, func(t *talk) { t.null(0, xid, 1); t.null(1, xid, 1); t.terminates(0, 2) }, Report{Terminates: make([]string, 1)}},
		{"no reply at all", true, func(t *talk) { t.null(0, xid, 1) }, Report{Ignored: 1}},
		{"no reply to one", true, func(t *talk) { t.null(0, xid, 1); t.null(1, xid, 1); t.null(0, xid+1, 1) }, Report{Unanswered: 1}},
	} {
		k := newTalk(c.crc)
		c.talk(k)
		k.c.end()
		if r := k.c.r; r.Misread != c.want.Misread || len(r.Terminates) != len(c.want.Terminates) || r.Ignored != c.want.Ignored || r.Unanswered != c.want.Unanswered {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}
