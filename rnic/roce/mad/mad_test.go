// Rejected input: lengths, versions, classes; the tables' names; IP headers; fuzzing.

package mad

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestWrongLengths(t *testing.T) {
	wire := append(datagram(t, goldens[0].header, goldens[0].data), make([]byte, 4)...)
	for n := range wire {
		if _, d, err := Parse(wire[:n]); (err == nil) != (n == Len) || n != Len && (err != errLength || d != nil) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestHeaderChecks(t *testing.T) {
	for _, c := range []struct {
		at   int
		to   byte
		want error
	}{
		{0, 2, errBaseVersion}, {0, 0, errBaseVersion}, {1, 0x03, errClass}, {1, 0x81, errClass}, {2, 1, ErrClassVersion},
		{3, 0x83, errMethod}, {3, 0x01, errMethod}, {5, 1, nil}, {17, 0xff, nil}, {19, 1, nil},
	} {
		wire := datagram(t, goldens[0].header, goldens[0].data)
		wire[c.at] = c.to
		h, _, err := Parse(wire)
		if err == nil {
			err = h.CheckCM()
		}
		if err != c.want {
			t.Errorf("byte %d is %#x: %v, want %v", c.at, c.to, err, c.want)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u8, u16 := rapid.Uint8(), rapid.Uint16()
		want := Header{u8.Draw(t, "class"), u8.Draw(t, "version"), u8.Draw(t, "method"), u16.Draw(t, "status"), u16.Draw(t, "specific"),
			rapid.Uint64().Draw(t, "transaction"), Attribute(u16.Draw(t, "attribute")), rapid.Uint32().Draw(t, "modifier")}
		b := append(want.Append(nil), make([]byte, DataLen)...)
		if got, _, err := Parse(b); err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
	})
	wire := must.Hex(t, "01 81 02 03 0405 0607 08090a0b0c0d0e0f 1011 0000 14151617")
	h := Header{0x81, 2, 3, 0x0405, 0x0607, 0x08090a0b0c0d0e0f, 0x1011, 0x14151617}
	if got := h.Append(nil); !bytes.Equal(got, wire) {
		t.Errorf("built %x", got)
	}
}

// Additional information longer than its field is rejected, and never sent.
func TestInfoLengthIsBounded(t *testing.T) {
	for _, m := range messages {
		for _, f := range m.fields {
			if f.name != "InfoLen" {
				continue
			}
			var d Data
			d[f.byteAt] = (InfoMax + 1) << (8 - f.len)
			if _, err := m.parse(&d); err != errInfoLength {
				t.Errorf("%v: %v", m.attribute, err)
			}
		}
	}
	for _, b := range [][]byte{(&REJ{InfoLen: 255}).Append(nil)[9:], (&APR{InfoLen: 73}).Append(nil)[8:], (&SIDRREP{InfoLen: 73}).Append(nil)[5:]} {
		if b[0] != InfoMax && b[0] != InfoMax<<1 {
			t.Errorf("sent %d", b[0])
		}
	}
}

// A value wider than its field does not reach its neighbors.
func TestWideValuesStayInTheirFields(t *testing.T) {
	r := REQ{LocalQPN: 1 << 24, StartingPSN: 1 << 31, Service: 4, RetryCount: 8, RNRRetryCount: 8, ExtendedTransport: 8, RemoteCMTimeout: 32,
		LocalCMTimeout: 32, PathMTU: 16, MaxCMRetries: 16, LocalEECN: 1 << 24, RemoteEECN: 1 << 24,
		Primary: Path{FlowLabel: 1 << 20, PacketRate: 64, SL: 16, LocalAckTimeout: 32}}
	if b := r.Append(nil); !bytes.Equal(b, make([]byte, DataLen)) {
		t.Errorf("REQ: %x", b)
	}
	p := REP{LocalQPN: 1 << 24, LocalEECN: 1 << 24, StartingPSN: 1 << 24, TargetAckDelay: 32, FailoverAccepted: 4, RNRRetryCount: 8}
	if b := p.Append(nil); !bytes.Equal(b, make([]byte, DataLen)) {
		t.Errorf("REP: %x", b)
	}
}

func TestStrings(t *testing.T) {
	for want, got := range map[string]string{
		"REQ": AttrREQ.String(), "SIDR_REP": AttrSIDRREP.String(), "attribute 1": Attribute(1).String(), "attribute 65535": Attribute(0xffff).String(),
		"rejected by the consumer": Reason(0x1c).String(), "invalid service ID: nothing listens there": Reason(8).String(),
		"reject reason 0": Reason(0).String(), "reject reason 34": Reason(34).String(), "vendor option not supported": Reason(35).String(),
		"UC": ServiceUC.String(), "transport service 4": Service(4).String(), "valid QPN": SIDRValid.String(), "SIDR status 255": SIDRStatus(255).String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for code, want := range []int{0, 256, 512, 1024, 2048, 4096, 0, 0} {
		if got := MTU(code).Bytes(); got != want {
			t.Errorf("MTU %d: %d bytes", code, got)
		}
	}
	if Timeout(0).Duration() != 4096*time.Nanosecond || Timeout(31).Duration() < 2*time.Hour {
		t.Error(Timeout(0).Duration(), Timeout(31).Duration())
	}
}

func TestIPHeader(t *testing.T) {
	wire := must.Hex(t, "0060 1f90 20010db8000000000000000000000001 20010db8000000000000000000000002")
	want := IPCM{netip.MustParseAddrPort("[2001:db8::1]:8080"), netip.MustParseAddr("2001:db8::2")}
	if got, rest, err := ParseIPCM(append(wire, 0xaa)); err != nil || got != want || !bytes.Equal(rest, []byte{0xaa}) {
		t.Errorf("%+v, %x, %v", got, rest, err)
	}
	if got, err := want.Append(nil); err != nil || !bytes.Equal(got, wire) {
		t.Errorf("built %x, %v", got, err)
	}
	for n := range IPCMLen {
		if _, _, err := ParseIPCM(wire[:n]); err != errIPCMShort {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for first, want := range map[string]error{"0160": errIPCMVersion, "1060": errIPCMVersion, "0050": errIPVersion, "0000": errIPVersion, "006f": nil} {
		if _, _, err := ParseIPCM(append(must.Hex(t, first), wire[2:]...)); err != want {
			t.Errorf("%s: %v, want %v", first, err, want)
		}
	}
	for _, c := range []IPCM{{}, {Source: want.Source}, {Source: want.Source, Destination: netip.MustParseAddr("10.0.0.1")}} {
		if b, err := c.Append(nil); err != errIPCMFamilies || len(b) != 0 {
			t.Errorf("%+v: %x, %v", c, b, err)
		}
	}
}

func TestServiceIDsAndGIDs(t *testing.T) {
	for id, want := range map[ServiceID]bool{0x0106_4e51: true, 0x0111_0001: true, 0x0206_4e51: false, 0x1_0106_4e51: false, 0: false, 0x0100_0000_0106_4e51: false} {
		protocol, port, ok := id.IP()
		if ok != want || ok && IPService(protocol, port) != id {
			t.Errorf("%#x: %d %d %v", id, protocol, port, ok)
		}
	}
	for _, s := range []string{"10.9.0.2", "2001:db8::1", "fe80::1"} {
		if a := netip.MustParseAddr(s); GIDOf(a).Addr() != a {
			t.Errorf("%v came back as %v", a, GIDOf(a).Addr())
		}
	}
	if g := GIDOf(netip.MustParseAddr("10.9.0.2")); !bytes.Equal(g[:], must.Hex(t, "00000000000000000000ffff0a090002")) {
		t.Errorf("%x", g)
	}
	if GIDOf(netip.Addr{}) != (GID{}) {
		t.Error("no address has a GID")
	}
}

func TestNoAllocs(t *testing.T) {
	wire := datagram(t, goldens[0].header, goldens[0].data)
	buf := make([]byte, 0, Len)
	if n := testing.AllocsPerRun(100, func() {
		h, d, err := Parse(wire)
		if err != nil || h.CheckCM() != nil {
			t.Fatal(err)
		}
		r, p := ParseREQ(d), ParseREP(d)
		c, _, err := ParseIPCM(r.PrivateData[:])
		if err != nil {
			t.Fatalf("ParseIPCM: %v", err)
		}
		b := r.Append(h.Append(buf))
		p.Append(h.Append(buf))
		if _, err := c.Append(b[:0]); err != nil {
			t.Fatalf("Append: %v", err)
		}
		if j, err := ParseREJ(d); err == nil {
			j.Append(h.Append(buf))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Arbitrary bytes: no panic, and accepted input is reproduced, except reserved bits.
func FuzzParse(f *testing.F) {
	for _, g := range goldens {
		f.Add(datagram(f, g.header, g.data))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, rest, err := ParseIPCM(b); err == nil {
			again, err := c.Append(nil)
			if got, _, err2 := ParseIPCM(append(again, rest...)); err != nil || err2 != nil || got != c {
				t.Fatalf("%+v came back as %+v, %v, %v", c, got, err, err2)
			}
		}
		h, d, err := Parse(b)
		if err != nil {
			return
		}
		_ = h.CheckCM()
		_ = h.Attribute.String()
		for i := range messages { // each message's parser, for any attribute
			m := &messages[i]
			got, err := m.parse(d)
			if err != nil || m.append == nil {
				continue
			}
			want := m.mask()
			for i := range want {
				want[i] &= d[i]
			}
			if again := m.append(got, nil); !bytes.Equal(again, want[:]) {
				t.Fatalf("%v: %x came back as %x", m.attribute, want, again)
			}
		}
	})
}
