// Real traffic of the Linux kernel through the codecs of the RNIC and back, byte by byte.

package capture

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

func conversations(t *testing.T) []Conversation {
	t.Helper()
	files, err := filepath.Glob("testdata/*.pcap.gz")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	var all []Conversation
	for _, file := range files {
		cs, err := Streams(file)
		if err != nil || len(cs) == 0 {
			t.Fatalf("%s: %d conversations, %v", file, len(cs), err)
		}
		all = append(all, cs...)
	}
	return all
}

// TestStartup: the kernel's MPA Request and Reply have the expected options. CRC and markers are
// off.
func TestStartup(t *testing.T) {
	for _, c := range conversations(t) {
		request, reply, modes, err := c.Startup()
		if err != nil {
			t.Fatalf("Startup: %v", err)
		}
		if request.Rev != mpa.Rev2 || !request.HasEnhanced || request.Enhanced != (mpa.Enhanced{IRD: 128}) || len(request.PrivateData) != 8 {
			t.Errorf("%s: Request %+v", c.Name, request)
		}
		if reply.Rev != mpa.Rev2 || !reply.HasEnhanced || reply.Enhanced != (mpa.Enhanced{ORD: 128}) || reply.Reject {
			t.Errorf("%s: Reply %+v", c.Name, reply)
		}
		if modes != (Modes{}) {
			t.Errorf("%s: modes %+v", c.Name, modes)
		}
	}
}

// reencode parses the bytes sent by one end, and returns got, the result encoded again. The other
// result has the real bytes with pads cleared: their content means nothing (RFC 5044 §4.1
// [R5044-020]). For pads siw sends old bytes from its buffer.
func reencode(t *testing.T, c *Conversation, fromInitiator bool) (got, sent []byte) {
	t.Helper()
	request, reply, modes, err := c.Startup()
	if err != nil || modes != (Modes{}) {
		t.Fatalf("%s: modes %+v, %v", c.Name, modes, err)
	}
	fpdus, err := c.FPDUs(fromInitiator)
	if err != nil {
		t.Fatalf("FPDUs: %v", err)
	}
	frame, sent := &reply, bytes.Clone(c.Responder.Bytes)
	if fromInitiator {
		frame, sent = &request, bytes.Clone(c.Initiator.Bytes)
	}
	got = mpa.AppendFrame(nil, frame)
	for _, f := range fpdus {
		f.Header.Ctrl = rdmap.Control(f.Op)
		got = mpa.AppendFPDU(got, modes.CRC, f.Header.Append(nil), payload(t, f))
		crc := f.End - mpa.CRCLen
		clear(sent[crc-mpa.Pad(f.Header.Len()+len(f.Payload)) : crc])
	}
	return got, sent
}

// payload returns an FPDU's payload. The payload of a Read Request or a Terminate is parsed and
// encoded again.
func payload(t *testing.T, f FPDU) []byte {
	t.Helper()
	switch f.Op {
	case rdmap.OpReadRequest:
		r, err := rdmap.ParseReadRequest(f.Payload)
		if err != nil {
			t.Fatalf("ParseReadRequest: %v", err)
		}
		return r.Append(nil)
	case rdmap.OpTerminate:
		m, err := term.Parse(f.Payload, false)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		return m.Append(nil)
	}
	return f.Payload
}

func TestReencodeStreams(t *testing.T) {
	for _, c := range conversations(t) {
		for _, fromInitiator := range []bool{true, false} {
			if got, sent := reencode(t, &c, fromInitiator); !bytes.Equal(got, sent) {
				t.Errorf("%s: from the initiator %v: %d bytes became %d others", c.Name, fromInitiator, len(sent), len(got))
			}
		}
	}
}

// TestMessages: the captures have every kind of message used by NFS over RDMA. Sequence numbers
// begin at 1 and have no gap. Each Read has its Response.
func TestMessages(t *testing.T) {
	kinds := map[rdmap.Opcode]int{}
	for _, c := range conversations(t) {
		messages, err := c.Messages()
		if err != nil {
			t.Fatalf("Messages: %v", err)
		}
		var msn [2][3]uint32
		var reads []rdmap.ReadRequest
		for _, m := range messages {
			kinds[m.Op]++
			if m.Packet == 0 {
				t.Fatalf("%s: %v in no packet", c.Name, m.Op)
			}
			if !m.Header.Tagged {
				dir := 0
				if m.FromInitiator {
					dir = 1
				}
				if msn[dir][m.Header.QN]++; m.Header.MSN != msn[dir][m.Header.QN] {
					t.Fatalf("%s: packet %d: MSN %d, want %d", c.Name, m.Packet, m.Header.MSN, msn[dir][m.Header.QN])
				}
			}
			switch m.Op {
			case rdmap.OpReadRequest:
				r, err := rdmap.ParseReadRequest(m.Payload)
				if err != nil {
					t.Fatalf("ParseReadRequest: %v", err)
				}
				reads = append(reads, r)
			case rdmap.OpReadResponse:
				r := reads[0]
				reads = reads[1:]
				if m.Header.STag != r.SinkSTag || m.Header.TO != r.SinkTO || uint32(len(m.Payload)) != r.Size {
					t.Fatalf("%s: packet %d: response %+v to %+v", c.Name, m.Packet, m.Header, r)
				}
			}
		}
		if len(reads) != 0 {
			t.Errorf("%s: %d Reads without a Response", c.Name, len(reads))
		}
	}
	for _, op := range []rdmap.Opcode{rdmap.OpSend, rdmap.OpSendInvalidate, rdmap.OpWrite, rdmap.OpReadRequest, rdmap.OpReadResponse} {
		if kinds[op] == 0 {
			t.Errorf("no %v in the captures", op)
		}
	}
	t.Log(kinds)
}
