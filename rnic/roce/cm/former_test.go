// Connections left by a killed process, ended by the next one.

package cm

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// successor returns a side with another CM at s's address.
func successor(s *side) *side {
	return newSide(s.t, s.addr, 77, func(c *Config) { c.GUID = 0x505400ffff000000 })
}

// A new CM disconnects an old connection's peer until that answers.
func TestEndFormer(t *testing.T) {
	a, b := two(t)
	ka, kb := connected(t, a, b, 0)
	c := successor(b)
	k := c.cm.EndFormer(10, kb.Former())
	if k == nil {
		t.Fatal("it is not ended")
	}
	c.says(mad.AttrDREQ) // lost
	at, ok := c.cm.NextDeadline()
	if !ok {
		t.Fatal("it is not said again")
	}
	c.cm.Advance(at)
	a.hears(at, c, c.says(mad.AttrDREQ), Accepted)
	if e := a.one(Ended); e.Conn != ka || e.Err != ErrDisconnected {
		t.Errorf("%+v", e)
	}
	c.hears(at, a, a.says(mad.AttrDREP), Accepted)
	if e := c.one(Ended); e.Conn != k || e.Err != nil {
		t.Errorf("%+v", e)
	}
	at, _ = c.cm.NextDeadline()
	c.cm.Advance(at)
	c.one(Released)
	c.silent()
	if c.cm.Conns() != 0 {
		t.Errorf("%d connections are left", c.cm.Conns())
	}
}

// A peer that disconnects meanwhile gets its answer; one that is gone times out.
func TestEndFormerWithoutAnswer(t *testing.T) {
	a, b := two(t)
	ka, kb := connected(t, a, b, 0)
	c := successor(b)
	c.cm.EndFormer(10, kb.Former())
	c.says(mad.AttrDREQ)
	if err := a.cm.Disconnect(11, ka, nil); err != nil {
		t.Fatalf("Disconnect: %v", err)
	}
	c.hears(12, a, a.says(mad.AttrDREQ), Accepted)
	a.hears(13, c, c.says(mad.AttrDREP), Accepted)
	c.one(Ended)

	c = successor(b)
	c.cm.EndFormer(10, kb.Former())
	said := 0
	for at, ok := c.cm.NextDeadline(); ok; at, ok = c.cm.NextDeadline() {
		c.cm.Advance(at)
		said += len(c.sent())
	}
	es := c.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Kind", es[0].Kind, Ended)
	must.Equal(t, "es[1].Kind", es[1].Kind, Released)
	must.Equal(t, "said", said, 16)
	must.Equal(t, "c.cm.Conns()", c.cm.Conns(), 0)
}

// Invalid connections, and identifiers in use, are ignored.
func TestEndFormerRefused(t *testing.T) {
	a, b := two(t)
	_, kb := connected(t, a, b, 0)
	good := kb.Former()
	for name, change := range map[string]func(*Former){
		"no peer":          func(f *Former) { f.Peer = netip.Addr{} },
		"no host":          func(f *Former) { f.Peer = netip.IPv4Unspecified() },
		"many hosts":       func(f *Former) { f.Peer = netip.MustParseAddr("224.0.0.1") },
		"another family":   func(f *Former) { f.Peer = netip.MustParseAddr("fd00::1") },
		"no identifier":    func(f *Former) { f.ID = 0 },
		"queue pair 1":     func(f *Former) { f.RemoteQPN = 1 },
		"25 bits of a QPN": func(f *Former) { f.RemoteQPN |= 1 << 24 },
	} {
		f := good
		change(&f)
		c := successor(b)
		if c.cm.EndFormer(10, f) != nil || c.cm.Conns() != 0 {
			t.Error(name)
		}
		c.silent()
	}
	if b.cm.EndFormer(10, good) != nil {
		t.Error("a connection that is there is ended")
	}
	b.silent()
}
