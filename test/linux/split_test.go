// Segments that end at awkward places of an FPDU, as TCP may cut them.

package linux

import (
	"crypto/md5"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// siwTrailer is the reaction of stock siw when a trailer comes in two pieces with CRCs on: it
// stores the second piece over the first and ends the connection for a CRC that was right. The
// client must recover from that by itself.
var siwTrailer = append([]string{`siw: crc error\. .*`}, reconnects...)

// TestSplitFPDUs: Linux reads the right bytes however TCP splits our FPDUs.
func TestSplitFPDUs(t *testing.T) {
	t.Parallel()
	// in one FPDU on any network, with a pad of three bytes, and with none
	const odd, even = 1001, 1000
	behindPad := func(fpdu []byte) int { return len(fpdu) - mpa.CRCLen }
	insideCRC := func(fpdu []byte) int { return len(fpdu) - mpa.CRCLen/2 }
	places := []struct {
		name    string
		size    int
		trailer bool // the cut is inside the trailer
		at      func(fpdu []byte) int
	}{
		{"header", odd, false, func([]byte) int { return 7 }},
		{"before payload", odd, false, func([]byte) int { return 16 }},
		{"payload", odd, false, func([]byte) int { return 500 }},
		{"before pad", odd, false, func(fpdu []byte) int { return len(fpdu) - mpa.CRCLen - 3 }},
		{"before CRC", even, false, behindPad},
		{"behind pad", odd, true, behindPad},
		{"inside CRC", even, true, insideCRC},
	}
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			enter(t, series)
			dir := exportDir(t)
			g := client(t, series)
			for _, n := range []int{odd, even} {
				want := pattern(n, 7)
				write(t, filepath.Join(dir, fmt.Sprint(n)), want)
				write(t, filepath.Join(g.Share, fmt.Sprint(n)), want)
			}
			for _, crc := range []string{"auto", "on"} {
				s := serve(t, g, dir, "--crc", crc)
				tp, check := s.tapping(t)
				for _, p := range places {
					t.Run(fmt.Sprintf("crc-%s/%s", crc, p.name), func(t *testing.T) {
						var expected []string
						if p.trailer && crc == "on" {
							expected = siwTrailer
						}
						readSplit(t, g, s, tp, p.size, p.at, expected)
					})
				}
				check(s.want) // the FPDUs as they were before the cuts
			}
		})
	}
}

// readSplit lets the guest read a file while the first two FPDUs that carry it are cut.
func readSplit(t *testing.T, g *guest.Guest, s *server, tp *tap.Tap, size int, at func(fpdu []byte) int, expected []string) {
	t.Helper()
	var cuts atomic.Int64
	tp.Split(tap.ToClient, func(fpdu []byte) int {
		if len(fpdu) < size || cuts.Load() == 2 {
			return 0
		}
		cuts.Add(1)
		return at(fpdu)
	})
	run(t, g, s.mountAt(tp.Port()))
	run(t, g, fmt.Sprintf("for i in 1 2 3; do drop_caches; cmp /mnt/%d /share/%d || exit 1; done; %s", size, size, unmount))
	if cuts.Load() != 2 {
		t.Errorf("%d FPDUs were cut", cuts.Load())
	}
	quiet(t, g, expected...)
}

// TestSegmentsOfOurOwn: with nothing between our server and the guest, no trailer is cut so that
// siw misreads it. The network is an Ethernet of 1,500 bytes, with CRCs on.
func TestSegmentsOfOurOwn(t *testing.T) {
	enter(t, "6.12")
	g := client(t, "6.12")
	if err := guest.Direct(); err != nil {
		t.Skip(err) // client has logged a line about it
	}
	dir := exportDir(t)
	want := pattern(16<<20, 9)
	write(t, filepath.Join(dir, "f"), want)
	s := serve(t, g, dir)
	run(t, g, s.mountAt(s.behind))
	sum := fmt.Sprintf("%x", md5.Sum(want))
	if got := run(t, g, "drop_caches; md5sum < /mnt/f"); !strings.HasPrefix(got, sum) {
		t.Errorf("the guest reads the sum %s, want %s", got, sum)
	}
	run(t, g, unmount)
	if said := run(t, g, "dmesg"); strings.Contains(said, "siw: crc error") {
		t.Errorf("the guest's kernel says:\n%s", said)
	}
	quiet(t, g)
}
