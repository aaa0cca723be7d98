// A mount's datagrams, byte by byte, with the fields that Linux's rdma_cm sends for NFS.

package cm

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// goldens are a connection's datagrams from Linux; "@n" continues at offset n, and zeros fill the
// rest.
var goldens = map[mad.Attribute]string{
	mad.AttrREQ: `01070203 00000000 00000001a1b2c3d4 0010 0000 00000000
		a1b2c3d4 00000000 0000000001064e51 505400fffe000002 00000000 00000000 000011 80 000000 00 000000 a0 654321 a7 ffff 30 f0
		ffff ffff 00000000000000000000ffff0a090002 00000000000000000000ffff0a090001 00000000 00 40 00 98
		@164 0040 c001 0000000000000000000000000a090002 0000000000000000000000000a090001 f6ab0e18 01 01 03 03`,
	mad.AttrREP: `01070203 00000000 00000001a1b2c3d4 0013 0000 00000000
		b5b6b7b8 a1b2c3d4 00000000 00001200 00000000 12345600 00 80 78 e0 505400fffe000001 f6ab0e18 01010303`,
	mad.AttrRTU:  `01070203 00000000 00000001a1b2c3d4 0014 0000 00000000 a1b2c3d4 b5b6b7b8`,
	mad.AttrDREQ: `01070203 00000000 00000002a1b2c3d4 0015 0000 00000000 a1b2c3d4 b5b6b7b8 00001200`,
	mad.AttrDREP: `01070203 00000000 00000002a1b2c3d4 0016 0000 00000000 b5b6b7b8 a1b2c3d4`,
	mad.AttrMRA:  `01070203 00000000 00000001a1b2c3d4 0011 0000 00000000 b5b6b7b8 a1b2c3d4 00 90`,
	mad.AttrREJ:  `01070203 00000000 00000001a1b2c3d4 0012 0000 00000000 00000000 a1b2c3d4 00 00 001c`,
	mad.AttrAPR:  `01070203 00000000 00000003a1b2c3d4 001a 0000 00000000 b5b6b7b8 a1b2c3d4 00 02`,
}

// golden returns the golden datagram with the attribute a.
func golden(t testing.TB, a mad.Attribute) (d Datagram) {
	t.Helper()
	at := 0
	for word := range strings.FieldsSeq(goldens[a]) {
		if word[0] == '@' {
			at = 164
			continue
		}
		n, err := hex.Decode(d.MAD[at:], []byte(word))
		must.Succeed(t, err)
		at += n
	}
	return d
}

// scripted returns a side with known identifiers.
func scripted(t testing.TB, s *side, ids ...uint64) *side {
	s.cm.cfg.ResponseTimeout = 20
	s.cm.cfg.Rand = func() uint64 { id := ids[0]; ids = ids[1:]; return id }
	return s
}

// Both sides send Linux's datagrams, and accept them.
func TestGoldenDatagrams(t *testing.T) {
	a, b := two(t)
	scripted(t, a, 0xa1b2c3d4, 0x1a1b2c3d4, 0x2a1b2c3d4)
	scripted(t, b, 0xb5b6b7b8)
	want := func(s *side, m mad.Attribute) Datagram {
		t.Helper()
		d := s.says(m)
		if g := golden(t, m); g.MAD != d.MAD {
			t.Fatalf("%v:\n%x, want\n%x", m, d.MAD, g.MAD)
		}
		return d
	}
	rfc8797 := []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}
	req := request()
	req.Private = rfc8797
	ka, err := a.cm.Connect(0, req)
	must.Succeed(t, err)
	d := want(a, mad.AttrREQ)
	b.hears(0, a, d, Accepted)
	kb := b.one(Requested).Conn
	b.hears(0, a, d, DropDuplicate)
	want(b, mad.AttrMRA)
	must.Succeed(t, b.cm.Accept(0, kb, qpB, rfc8797))
	a.hears(0, b, want(b, mad.AttrREP), Accepted)
	a.one(Replied)
	must.Succeed(t, a.cm.Confirm(0, ka, nil))
	b.hears(0, a, want(a, mad.AttrRTU), Accepted)
	b.hearsFrom(0, addrA, by(mad.AttrLAP, 0x3a1b2c3d4, &mad.LAP{LocalCommID: 0xa1b2c3d4, RemoteCommID: 0xb5b6b7b8, RemoteQPN: 0x12}), DropRefused)
	want(b, mad.AttrAPR)
	must.Succeed(t, a.cm.Disconnect(0, ka, nil))
	b.hears(0, a, want(a, mad.AttrDREQ), Accepted)
	a.hears(0, b, want(b, mad.AttrDREP), Accepted)

	_, b = two(t)
	scripted(t, b, 0xb5b6b7b8)
	b.hearsFrom(0, addrA, golden(t, mad.AttrREQ), Accepted)
	must.Succeed(t, b.cm.Reject(0, b.one(Requested).Conn, mad.RejConsumer, nil))
	want(b, mad.AttrREJ)
}
