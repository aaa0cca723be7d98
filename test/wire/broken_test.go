// Captures that break one rule each: changed bytes from real Linux traffic, and the rules that need
// a conversation of their own.

package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func (t *talk) noMsg(dir int, words ...any) {
	t.send(dir, opSend, 0, append([]any{xid, 1, 32, 1}, words...)...)
}

// begin feeds MPA frames with these flags and nothing else.
func begin(request, reply byte) *talk {
	t := &talk{c: newConn(new(Report))}
	for dir, flags := range []byte{request, reply} {
		t.c.take(chunk{dir: dir, data: append([]byte(keys[dir]), flags, 2, 0, 0)})
	}
	return t
}

func (t *talk) said() string {
	var all []string
	for _, v := range t.c.r.Violations {
		all = append(all, v.String())
	}
	return strings.Join(all, "\n")
}

// TestValidateNoticesMore: Validate notices the mistakes that TestValidateNotices leaves out.
func TestValidateNoticesMore(t *testing.T) {
	untagged := func(ddp, rdmap byte, queue, msn, mo int) []byte {
		return append([]byte{ddp, rdmap}, encode(0, queue, msn, mo)...)
	}
	for _, c := range []struct {
		name, want string
		talk       func(t *talk)
	}{
		{"an XID used twice", "while a call with it waits", func(t *talk) { t.null(0, 1, 8); t.null(1, 1, 8); t.null(0, 2, 8); t.null(0, 2, 8) }},
		{"a long call from nowhere", "without a Position-zero Read chunk", func(t *talk) { t.noMsg(0, 0, 0, 0) }},
		{"an odd Position", "Position 81", func(t *talk) { t.send(0, opSend, 0, xid, 1, 32, 0, 1, 81, 0xaa, 4, uint64(0), 0, 0, 0, xid, 0) }},
		{"a long reply that is empty", "RDMA_NOMSG with 0 bytes", func(t *talk) {
			t.send(0, opSend, 0, xid, 1, 32, 0, 0, 0, 1, 1, 0xee, 100, uint64(0), xid, 0)
			t.noMsg(1, 0, 0, 1, 1, 0xee, 0, uint64(0))
		}},
		{"a Reply chunk not full although it says so", "but 4 bytes were written", func(t *talk) {
			t.send(0, opSend, 0, xid, 1, 32, 0, 0, 0, 1, 1, 0xee, 100, uint64(0), xid, 0)
			t.tagged(1, opWrite, 0xee, 0, 4)
			t.noMsg(1, 0, 0, 1, 1, 0xee, 100, uint64(0))
		}},
		{"another number of segments", "1 segments, the call has 2", func(t *talk) {
			t.callWith()
			t.send(1, opSend, 0, xid, 1, 32, 0, 0, 1, 1, 0xbb, 0, uint64(0x8000), 0, 0, xid, 1)
		}},
		{"a segment grown", "is longer than the call's", func(t *talk) { t.callWith(); t.replyWith(51, 0) }},
		{"a Read list in a reply", "a Read list in a reply", func(t *talk) {
			t.null(0, 1, 8)
			t.send(1, opSend, 0, 1, 1, 8, 0, 1, 0, 0xaa, 4, uint64(0), 0, 0, 0, 1, 1)
		}},
		{"invalidation not offered", "has not offered it", func(t *talk) {
			t.c.rpc.mayInvalidate = false
			t.callWith()
			t.send(1, opSendInvalidate, 0xbb, xid, 1, 32, 0, 0, 1, 2, 0xbb, 0, uint64(0x8000), 0xcc, 0, uint64(0x9000), 0, 0, xid, 1)
		}},
		{"a requester that invalidates", "a requester invalidates", func(t *talk) { t.send(0, opSendInvalidate, 1, 1, 1, 8, 0, 0, 0, 0, 1, 0) }},
		{"a requester that reads", "a requester reads", func(t *talk) { t.read(0, 1, 1, 0) }},
		{"a read with other rights", "no outstanding call", func(t *talk) { t.callWith(); t.read(1, 10, 0xbb, 0x8000) }},
		{"a read after the reply", "no outstanding call", func(t *talk) { t.callWith(); t.replyWith(0, 0); t.read(1, 10, 0xaa, 0x7000) }},
		{"more Reads than the peer takes", "2 Reads outstanding, the peer takes 1", func(t *talk) {
			t.c.rpc.ird = 1
			t.callWith()
			t.read(1, 10, 0xaa, 0x7000)
			t.fpdu(1, append(untagged(0x41, 0x41, 1, 2, 0), encode(0x52, uint64(0), 10, 0xaa, uint64(0x7000))...), false)
		}},
		{"a Read Response nobody asked for", "to no Read Request", func(t *talk) { t.tagged(0, opReadResponse, 1, 0, 4) }},
		{"a Read Response elsewhere", "expected are 100 bytes to 00000051:0", func(t *talk) {
			t.callWith()
			t.read(1, 100, 0xaa, 0x7000)
			t.tagged(0, opReadResponse, 0x51, 4, 100)
		}},
		{"a Read Request cut short", "20 bytes", func(t *talk) { t.fpdu(1, append(untagged(0x41, 0x41, 1, 1, 0), make([]byte, 20)...), false) }},
		{"a segment out of place", "message 1 at 5 follows message 1 at 4", func(t *talk) {
			t.fpdu(0, append(untagged(0x01, 0x43, 0, 1, 0), 1, 2, 3, 4), false)
			t.fpdu(0, untagged(0x41, 0x43, 0, 1, 5), false)
		}},
		{"a Send on the queue of Reads", "Send on queue 1", func(t *talk) { t.fpdu(0, untagged(0x41, 0x43, 1, 1, 0), false) }},
		{"a Send in a tagged segment", "Send in a tagged segment", func(t *talk) { t.tagged(0, opSend, 1, 0, 4) }},
		{"an RDMA Write in an untagged segment", "RDMA Write in an untagged segment", func(t *talk) { t.fpdu(1, untagged(0x41, 0x40, 0, 1, 0), false) }},
		{"another DDP version", "DDP version 2", func(t *talk) { t.fpdu(0, untagged(0x42, 0x43, 0, 1, 0), false) }},
		{"another version of RPC-over-RDMA", "version 2", func(t *talk) { t.send(0, opSend, 0, 1, 2, 8, 0, 0, 0, 0, 1, 0) }},
		{"a header cut short", "cut short", func(t *talk) { t.send(0, opSend, 0, 1, 1, 8, 0, 0, 0) }},
		{"an unknown procedure", "procedure 7", func(t *talk) { t.send(0, opSend, 0, 1, 1, 8, 7) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			talk := newTalk(true)
			c.talk(talk)
			if got := talk.said(); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestValidateNoticesAtStartup(t *testing.T) {
	if got := begin(0x40, 0).said(); !strings.Contains(got, "is not granted") {
		t.Errorf("CRC refused: %q", got)
	}
	if got := begin(0x80, 0).said(); !strings.Contains(got, "markers") {
		t.Errorf("markers: %q", got)
	}
	early := &talk{c: newConn(new(Report))}
	early.c.take(chunk{dir: 0, data: append([]byte(keys[0]), 0, 2, 0, 0)})
	early.null(0, 1, 8)
	if got := early.said(); !strings.Contains(got, "before the MPA Reply") {
		t.Errorf("an early FPDU: %q", got)
	}
}

// TestValidateCountsWhatIsOpen: calls without a reply and messages without an end are counted,
// apart from each other.
func TestValidateCountsWhatIsOpen(t *testing.T) {
	ignored := newTalk(true)
	ignored.null(0, 1, 8)
	unanswered := newTalk(true)
	unanswered.null(0, 1, 8)
	unanswered.null(1, 1, 8)
	unanswered.null(0, 2, 8)
	torn := newTalk(true)
	torn.c.take(chunk{data: []byte{0, 100}})
	refused := &talk{c: newConn(new(Report))}
	refused.c.take(chunk{data: append([]byte(keys[0]), 0, 2, 0, 0)})
	for name, c := range map[string]struct {
		talk                               *talk
		ignored, unanswered, torn, refused int
	}{"ignored": {ignored, 1, 0, 0, 0}, "unanswered": {unanswered, 0, 1, 0, 0}, "torn": {torn, 0, 0, 1, 0}, "refused": {refused, 0, 0, 0, 1}} {
		c.talk.c.end()
		if r := c.talk.c.r; r.Ignored != c.ignored || r.Unanswered != c.unanswered || r.Torn != c.torn || r.Refused != c.refused {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// change passes the ULPDUs in a capture to edit, except those in several packets, until edit
// reports a change. Then it corrects that FPDU's CRC and returns the capture.
func change(t *testing.T, capture []byte, edit func(dir int, ulpdu []byte) bool) []byte {
	t.Helper()
	b := bytes.Clone(capture)
	link := 0
	if binary.LittleEndian.Uint32(b[20:]) == 1 {
		link = 14
	}
	opener := uint16(0)
	for at := 24; at < len(b); {
		n := int(binary.LittleEndian.Uint32(b[at+8:]))
		ip := b[at+16+link : at+16+n]
		at += 16 + n
		head := int(ip[0]&15) * 4
		tcp := ip[head:binary.BigEndian.Uint16(ip[2:])]
		from := binary.BigEndian.Uint16(tcp)
		data := tcp[int(tcp[12]>>4)*4:]
		if bytes.HasPrefix(data, []byte(keys[0])) {
			opener = from
		}
		if opener == 0 || bytes.HasPrefix(data, []byte("MPA ")) {
			continue
		}
		dir := 0
		if from != opener {
			dir = 1
		}
		for len(data) >= 6 {
			f, n := parseFPDU(data)
			if n == 0 {
				break // it goes on in the next packet
			}
			if edit(dir, f.ulpdu) {
				binary.LittleEndian.PutUint32(data[n-4:], crc32.Checksum(data[:n-4], castagnoli))
				return b
			}
			data = data[n:]
		}
	}
	t.Fatal("nothing was found to change")
	return nil
}

// rpcAt returns a function for all units in order. At the n-th Send from side want it edits the
// transport header and returns true.
func rpcAt(want, n int, edit func(header []byte)) func(int, []byte) bool {
	return func(dir int, u []byte) bool {
		if s, err := parseDDP(u); err != nil || dir != want || s.tagged || s.op == opReadRequest || s.mo != 0 {
			return false
		}
		if n--; n == 0 {
			edit(u[18:])
		}
		return n == 0
	}
}

// TestChangedCapturesAreNoticed: a rule broken in one message of Linux's own traffic is noticed,
// and attributed to that message.
func TestChangedCapturesAreNoticed(t *testing.T) {
	whole := linuxCapture(t, "ops")
	tagged := func(op opcode, edit func(u []byte)) func(int, []byte) bool {
		return func(_ int, u []byte) bool {
			s, err := parseDDP(u)
			if err != nil || s.op != op || len(s.data) == 0 {
				return false
			}
			edit(u)
			return true
		}
	}
	for _, c := range []struct {
		name, want string
		edit       func(int, []byte) bool
	}{
		{"a call without credits", "client, XID %08x: a credit value of zero", rpcAt(0, 5, func(h []byte) { clear(h[8:12]) })},
		{"a grant of zero", "server, XID %08x: a credit value of zero", rpcAt(1, 5, func(h []byte) { clear(h[8:12]) })},
		{"another version", "version 9", rpcAt(0, 5, func(h []byte) { h[7] = 9 })},
		{"another XID", "the XID of the RPC message after the header is another", rpcAt(0, 5, func(h []byte) { h[3] ^= 1 })},
		{"a reply to another", "a reply to no call", rpcAt(1, 5, func(h []byte) { h[3] ^= 0x80 })},
		{"a Write elsewhere", "has advertised this memory for writing", tagged(opWrite, func(u []byte) { u[2] ^= 0x80 })},
		{"a Write too far", "has advertised this memory for writing", tagged(opWrite, func(u []byte) { u[9] ^= 0x80 })},
		{"a Read elsewhere", "has advertised this memory for reading", tagged(opReadRequest, func(u []byte) { u[18+16] ^= 0x80 })},
		{"a Read too long", "has advertised this memory for reading", tagged(opReadRequest, func(u []byte) { u[18+12] ^= 0x40 })},
		{"a Read Response elsewhere", "expected are", tagged(opReadResponse, func(u []byte) { u[5] ^= 1 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			var id uint32
			b := change(t, whole, func(dir int, u []byte) bool {
				before := bytes.Clone(u)
				if !c.edit(dir, u) {
					return false
				}
				if len(before) >= 22 {
					id = binary.BigEndian.Uint32(before[18:])
				}
				return true
			})
			r, err := validate(bytes.NewReader(b))
			if err != nil {
				t.Fatalf("validate: %v", err)
			}
			want := c.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, id)
			}
			if len(r.Violations) == 0 || !strings.Contains(fmt.Sprint(r.Violations), want) {
				t.Errorf("got %v, want %q", r.Violations, want)
			}
		})
	}
}

// TestChangedBytesAreNoticed: with CRC on, a wrong CRC is noticed. A capture that ends inside a
// packet is an error.
func TestChangedBytesAreNoticed(t *testing.T) {
	talk := newTalk(true)
	talk.fpdu(0, append([]byte{0x41, 0x43}, encode(0, 0, 1, 0, 1, 1, 8, 0, 0, 0, 0, 1, 0)...), true)
	if got := talk.said(); !strings.Contains(got, "CRC is wrong") {
		t.Errorf("got %q", got)
	}
	path := filepath.Join(t.TempDir(), "cut.pcap")
	must.Succeed(t, os.WriteFile(path, linuxCapture(t, "small")[:1000], 0o600))
	if _, err := Validate(path); err == nil {
		t.Error("a capture that ends inside a packet is validated")
	}
}
