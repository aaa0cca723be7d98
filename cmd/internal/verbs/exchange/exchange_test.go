// The formats, from hand-written bytes; truncated and invalid ones are refused.

package exchange

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// Lines as ibv_rc_pingpong and ib_write_bw write them.
const (
	pingpongLine = "0000:00001b:a1b2c3:00000000000000000000ffffc6120002\x00"
	keyLine      = "0000:0010:00001b:a1b2c3:0000a5d1:00007f0123456000:00:00:00:00:00:00:00:00:00:00:ff:ff:c6:12:00:02:00000007:\x00"
)

var (
	pingpongWant = Pingpong{QPN: 0x1b, PSN: 0xa1b2c3, GID: netip.MustParseAddr("198.18.0.2")}
	keyWant      = Key{Reads: 16, QPN: 0x1b, PSN: 0xa1b2c3, RKey: 0xa5d1, Addr: 0x7f0123456000, GID: netip.MustParseAddr("198.18.0.2"), SRQN: 7}
)

func TestPingpongLine(t *testing.T) {
	conformance.Proves(t, "IBU-253")
	if p, err := ParsePingpong([]byte(pingpongLine)); err != nil || p != pingpongWant {
		t.Errorf("%+v, %v", p, err)
	}
	if b := AppendPingpong(nil, pingpongWant); string(b) != pingpongLine || len(b) != PingpongLen {
		t.Errorf("%q", b)
	}
	p := Pingpong{LID: 0xfedc, QPN: 0xfffffe, PSN: 0xffffff, GID: netip.MustParseAddr("2001:db8::1")}
	if back, err := ParsePingpong(AppendPingpong(nil, p)); err != nil || back != p {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestKey(t *testing.T) {
	if k, err := ParseKey([]byte(keyLine)); err != nil || k != keyWant {
		t.Errorf("%+v, %v", k, err)
	}
	if b := AppendKey(nil, keyWant); string(b) != keyLine || len(b) != KeyLen {
		t.Errorf("%q", b)
	}
}

// refused checks that parse refuses every prefix of good, good with one byte more, and each
// replacement.
func refused(t *testing.T, good string, parse func([]byte) error, replacements ...string) {
	t.Helper()
	for n := range good {
		if parse([]byte(good[:n])) == nil {
			t.Errorf("%q is taken", good[:n])
		}
	}
	if parse([]byte(good+"x")) == nil {
		t.Errorf("a byte after the end is taken")
	}
	r := strings.NewReplacer
	for i := 0; i < len(replacements); i += 2 {
		bad := r(replacements[i], replacements[i+1]).Replace(good)
		if bad == good {
			t.Fatalf("%q is not in %q", replacements[i], good)
		}
		if parse([]byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestWrongLines(t *testing.T) {
	refused(t, pingpongLine, func(b []byte) error { _, err := ParsePingpong(b); return err },
		":", ";", "a1b2c3", "a1b2g3", "a1b2c3", "+1b2c3", "00001b", "000001", "00001b", "ffffff", "ffffc6120002", "000000000000", "ffffc6120002", "ffffe0000001",
		"0000000000ffffc6120002", "0x00000000ffffc6120002", "\x00", "\n")
	refused(t, keyLine, func(b []byte) error { _, err := ParseKey(b); return err },
		":", ";", "a1b2c3", "a1_2c3", "00001b", "000000", ":ff:ff:c6:12:00:02", ":00:00:00:00:00:00", "00007f", "0x007f")
}

func TestSmallMessages(t *testing.T) {
	for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
		if got, err := ParseMTU(AppendMTU(nil, mtu)); err != nil || got != mtu {
			t.Errorf("%d: %d, %v", mtu, got, err)
		}
	}
	if b := AppendMTU(nil, 1024); string(b) != "3\x00" {
		t.Errorf("%q", b)
	}
	for _, bad := range []string{"", "3", "0\x00", "6\x00", "33", "3\x00\x00"} {
		if n, err := ParseMTU([]byte(bad)); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
	if n, err := ParseSize([]byte{0, 0, 16, 0}); err != nil || n != 4096 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := ParseSize([]byte{0, 16, 0}); err == nil {
		t.Error("three bytes are a size")
	}
	f := Figures{Size: 65536, Iterations: 5000, Peak: 1.5, Average: -2, Rate: 1e9}
	b := AppendFigures(nil, f)
	if got, err := ParseFigures(b); err != nil || got != f || len(b) != FiguresLen {
		t.Errorf("%+v, %v, %d bytes", got, err, len(b))
	}
	if _, err := ParseFigures(b[1:]); err == nil {
		t.Error("39 bytes are figures")
	}
	r := Region{Addr: 0x123456789abcdef0, RKey: 0xa5d1, Size: 64}
	b = AppendRegion(nil, r)
	if got, err := ParseRegion(b); err != nil || got != r || string(b) != "\x12\x34\x56\x78\x9a\xbc\xde\xf0\x00\x00\xa5\xd1\x00\x00\x00\x40" {
		t.Errorf("%+v, %v, %x", got, err, b)
	}
	if _, err := ParseRegion(b[1:]); err == nil {
		t.Error("15 bytes are a region")
	}
}

func TestVersions(t *testing.T) {
	for v, good := range map[string]bool{"5.70": true, "5.9": true, "6.06": true, "6.20": true, "5.60": false, "6.30": false, "": false,
		"x": false, "NaN": false, "6e0": false, "0x6": false, "+6": false, "6.0.6": false} {
		got, err := ParseVersion(AppendVersion(nil, v))
		if (err == nil) != good || good && got != v {
			t.Errorf("%q: %q, %v", v, got, err)
		}
	}
	if b := AppendVersion(nil, "a version that is far too long"); len(b) != VersionLen || b[VersionLen-1] != 0 {
		t.Errorf("%q", b)
	}
	if _, err := ParseVersion(AppendVersion(nil, "6.06")[1:]); err == nil {
		t.Error("15 bytes are a version")
	}
}

// TestBinaryKey: the fields stand where a structure of C has them, in network byte order.
func TestBinaryKey(t *testing.T) {
	k := Key{LID: 0x1234, Reads: 16, QPN: 0xa1b2c3, PSN: 0x42c032, RKey: 0x76f, Addr: 0x55e2b4eb0000, SRQN: 7}
	b := AppendBinaryKey(nil, k)
	want := "00001234" + "00000010" + "00a1b2c3" + "0042c032" + "0000076f" + "00000000" + "000055e2b4eb0000" + strings.Repeat("00", 16) + "00000007" + "ffffffff"
	if hex.EncodeToString(b) != want || len(b) != BinaryKeyLen {
		t.Errorf("%x, want %s", b, want)
	}
	if got, err := ParseBinaryKey(b); err != nil || got != k {
		t.Errorf("%+v, %v", got, err)
	}
	k.GID = netip.MustParseAddr("198.18.0.2")
	if b = AppendBinaryKey(nil, k); hex.EncodeToString(b[32:48]) != "00000000000000000000ffffc6120002" {
		t.Errorf("%x", b)
	}
	k.GID = netip.Addr{}
	if got, err := ParseBinaryKey(b); err != nil || got != k {
		t.Errorf("with a GID: %+v, %v", got, err)
	}
	for n := range b {
		if _, err := ParseBinaryKey(b[:n]); err == nil {
			t.Errorf("%d bytes are a key", n)
		}
	}
}

func FuzzPingpong(f *testing.F) {
	f.Add([]byte(pingpongLine))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePingpong(b)
		if err != nil {
			return
		}
		if again, err := ParsePingpong(AppendPingpong(nil, p)); err != nil || again != p {
			t.Errorf("%q: %+v, then %+v, %v", b, p, again, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(keyLine))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKey(b)
		if err != nil {
			return
		}
		if again, err := ParseKey(AppendKey(nil, k)); err != nil || again != k {
			t.Errorf("%q: %+v, then %+v, %v", b, k, again, err)
		}
	})
}

// FuzzSmall parses any bytes as each message of fixed length.
func FuzzSmall(f *testing.F) {
	f.Add(AppendVersion(nil, Version))
	f.Add(AppendMTU(nil, 1024))
	f.Add(AppendFigures(nil, Figures{Size: 1, Rate: 2.5}))
	f.Add(AppendBinaryKey(nil, Key{QPN: 17, RKey: 3, Addr: 4096}))
	f.Add(AppendRegion(nil, Region{Addr: 1, RKey: 2, Size: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := ParseVersion(b); err == nil && string(AppendVersion(nil, v)[:len(v)]) != v {
			t.Errorf("version %q", v)
		}
		if n, err := ParseMTU(b); err == nil && string(AppendMTU(nil, n)) != string(b) {
			t.Errorf("MTU %d of %q", n, b)
		}
		if k, err := ParseBinaryKey(b); err == nil {
			if again, err := ParseBinaryKey(AppendBinaryKey(nil, k)); err != nil || again != k {
				t.Errorf("%x: %+v, then %+v, %v", b, k, again, err)
			}
		}
		if n, err := ParseSize(b); err == nil && string(AppendSize(nil, n)) != string(b) {
			t.Errorf("size %d of %q", n, b)
		}
		if r, err := ParseRegion(b); err == nil && string(AppendRegion(nil, r)) != string(b) {
			t.Errorf("region %+v of %x", r, b)
		}
		if g, err := ParseFigures(b); err == nil && string(AppendFigures(nil, g)[:16]) != string(b[:16]) {
			t.Errorf("figures %+v of %x", g, b)
		}
	})
}
