// Hand-written datagrams: Linux's for NFS, and one of each other message.

package mad

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// datagram parses 256 bytes in hex, zero-filled; "@n" continues at offset n in the data.
func datagram(t testing.TB, header, data string) []byte {
	t.Helper()
	b := make([]byte, Len)
	if n := copy(b, must.Hex(t, header)); n != HeaderLen {
		t.Fatalf("header of %d bytes", n)
	}
	at := HeaderLen
	for word := range strings.FieldsSeq(data) {
		if offset, ok := strings.CutPrefix(word, "@"); ok {
			at = HeaderLen
			for _, c := range offset {
				at = HeaderLen + (at-HeaderLen)*10 + int(c-'0')
			}
			continue
		}
		at += copy(b[at:], must.Hex(t, word))
	}
	return b
}

var goldens = []struct {
	name         string
	header, data string
	want         any
}{
	// Service ID 0x0106 and port 20049.
	{"REQ of a Linux mount", "01 07 02 03 0000 0000 00000001a1b2c3d4 0010 0000 00000000",
		`a1b2c3d4 00000000 0000000001064e51 505400fffe000002 00000000 00000000
		000011 80 000000 00 000000 a0 654321 a7 ffff 30 f0
		ffff ffff 00000000000000000000ffff0a090002 00000000000000000000ffff0a090001 00000000 00 40 00 98
		@140 0040 c001 0000000000000000000000000a090002 0000000000000000000000000a090001
		f6ab0e18 01 01 03 03`, goldenREQ()},
	{"REP", "01070203 0000 0000 00000001a1b2c3d4 0013 0000 00000000",
		`b5b6b7b8 a1b2c3d4 00000000 00001200 00000000 12345600 00 80 79 f0 505400fffe000001 f6ab0e18 01010303`,
		REP{LocalCommID: 0xb5b6b7b8, RemoteCommID: 0xa1b2c3d4, LocalQPN: 0x12, StartingPSN: 0x123456, InitiatorDepth: 128, TargetAckDelay: 15,
			FlowControl: true, RNRRetryCount: 7, SRQ: true, LocalCAGUID: 0x505400fffe000001, PrivateData: [196]byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}}},
	{"RTU", "01070203 0000 0000 00000001a1b2c3d4 0014 0000 00000000", `a1b2c3d4 b5b6b7b8 @231 0d`,
		RTU{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0xb5b6b7b8, PrivateData: [224]byte{223: 0x0d}}},
	{"MRA of a REQ", "01070203 0000 0000 00000001a1b2c3d4 0011 0000 00000000", `b5b6b7b8 a1b2c3d4 00 c0 77`,
		MRA{LocalCommID: 0xb5b6b7b8, RemoteCommID: 0xa1b2c3d4, Message: AnsweredREQ, ServiceTimeout: 24, PrivateData: [222]byte{0x77}}},
	{"REJ of an MTU", "01070203 0000 0000 00000001a1b2c3d4 0012 0000 00000000", `00000000 a1b2c3d4 00 02 001a 03 @84 99`,
		REJ{RemoteCommID: 0xa1b2c3d4, Message: AnsweredREQ, Reason: RejMTU, InfoLen: 1, Info: [72]byte{3}, PrivateData: [148]byte{0x99}}},
	{"REJ for a timeout", "01070203 0000 0000 00000001a1b2c3d4 0012 0000 00000000", `a1b2c3d4 b5b6b7b8 80 00 0004`,
		REJ{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0xb5b6b7b8, Message: AnsweredOther, Reason: RejTimeout}},
	{"DREQ", "01070203 0000 0000 00000002a1b2c3d4 0015 0000 00000000", `a1b2c3d4 b5b6b7b8 00001200 55`,
		DREQ{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0xb5b6b7b8, RemoteQPN: 0x12, PrivateData: [220]byte{0x55}}},
	{"DREP", "01070203 0000 0000 00000002a1b2c3d4 0016 0000 00000000", `b5b6b7b8 a1b2c3d4`,
		DREP{LocalCommID: 0xb5b6b7b8, RemoteCommID: 0xa1b2c3d4}},
	{"APR that refuses", "01070203 0000 0000 00000003a1b2c3d4 001a 0000 00000000", `b5b6b7b8 a1b2c3d4 00 02`,
		APR{LocalCommID: 0xb5b6b7b8, RemoteCommID: 0xa1b2c3d4, Status: APUnsupported}},
	{"SIDR_REQ", "01070203 0000 0000 00000004a1b2c3d4 0017 0000 00000000", `a1b2c3d4 ffff 0000 0000000001111f90 0060 c002`,
		SIDRREQ{RequestID: 0xa1b2c3d4, PartitionKey: 0xffff, ServiceID: IPService(ProtocolUDP, 8080), PrivateData: [216]byte{0, 0x60, 0xc0, 2}}},
	{"SIDR_REP", "01070203 0000 0000 00000004a1b2c3d4 0018 0000 00000000", `a1b2c3d4 00 00 0000 00001300 0000000001111f90 01234567 @96 42`,
		SIDRREP{RequestID: 0xa1b2c3d4, QPN: 0x13, ServiceID: IPService(ProtocolUDP, 8080), QKey: 0x01234567, PrivateData: [136]byte{0x42}}},
	{"LAP", "01070203 0000 0000 00000003a1b2c3d4 0019 0000 00000000", `a1b2c3d4 b5b6b7b8 00000000 000012 a0`,
		LAP{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0xb5b6b7b8, RemoteQPN: 0x12, RemoteCMTimeout: 20}},
}

func goldenREQ() REQ {
	client, server := netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("10.9.0.1")
	r := REQ{
		LocalCommID: 0xa1b2c3d4, ServiceID: IPService(ProtocolTCP, 20049), LocalCAGUID: 0x505400fffe000002, LocalQPN: 0x11,
		StartingPSN: 0x654321, PartitionKey: 0xffff, ResponderResources: 128, RemoteCMTimeout: 20, LocalCMTimeout: 20, MaxCMRetries: 15,
		Service: ServiceRC, RetryCount: 7, PathMTU: 3,
		Primary: Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: GIDOf(client), RemoteGID: GIDOf(server), HopLimit: 64, LocalAckTimeout: 19},
	}
	ip, _ := (&IPCM{Source: netip.AddrPortFrom(client, 0xc001), Destination: server}).Append(nil)
	// Remote invalidation, and 4 KiB for both inline sizes (RFC 8797 §4).
	copy(r.PrivateData[copy(r.PrivateData[:], ip):], "\xf6\xab\x0e\x18\x01\x01\x03\x03")
	return r
}

func TestGolden(t *testing.T) {
	for _, g := range goldens {
		wire := datagram(t, g.header, g.data)
		h, d, err := Parse(wire)
		if err != nil || h.CheckCM() != nil {
			t.Errorf("%s: %v, %v", g.name, err, h.CheckCM())
			continue
		}
		m := find(h.Attribute)
		if got, err := m.parse(d); err != nil || got != g.want {
			t.Errorf("%s: read as %+v, %v", g.name, got, err)
		}
		if m.append == nil {
			continue
		}
		sent := NewHeader(h.Attribute, h.TransactionID)
		if b := m.append(g.want, sent.Append(nil)); !bytes.Equal(b, wire) {
			t.Errorf("%s: built %x", g.name, b)
		}
	}
}

func find(a Attribute) *message {
	for i := range messages {
		if messages[i].attribute == a {
			return &messages[i]
		}
	}
	return nil
}

// A mount's REQ has its source and its service.
func TestMountREQ(t *testing.T) {
	_, d, err := Parse(datagram(t, goldens[0].header, goldens[0].data))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	r := ParseREQ(d)
	protocol, port, ok := r.ServiceID.IP()
	must.Equal(t, "protocol", protocol, ProtocolTCP)
	must.Equal(t, "port", port, 20049)
	must.Equal(t, "ok", ok, true)
	c, consumer, err := ParseIPCM(r.PrivateData[:])
	must.Succeed(t, err)
	must.Equal(t, "c.Source", c.Source, netip.MustParseAddrPort("10.9.0.2:49153"))
	must.Equal(t, "c.Destination", c.Destination, netip.MustParseAddr("10.9.0.1"))
	if len(consumer) != 56 || !bytes.HasPrefix(consumer, []byte{0xf6, 0xab, 0x0e, 0x18}) {
		t.Errorf("consumer's part: %x", consumer)
	}
	must.Equal(t, "r.PathMTU.Bytes()", r.PathMTU.Bytes(), 1024)
	must.Equal(t, "r.LocalCMTimeout.Duration().Milliseconds()", r.LocalCMTimeout.Duration().Milliseconds(), 4294)
	must.Equal(t, "r.Primary.LocalGID.Addr()", r.Primary.LocalGID.Addr(), c.Source.Addr())
}
