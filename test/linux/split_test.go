// Segments that end at awkward places of an FPDU, as TCP may cut them.

package linux

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// siwTrailer is what stock siw does with a trailer that comes in two pieces when CRCs are
// on: it stores the second piece over the first and ends the connection for a CRC that
// was right. The client has to recover from that by itself.
var siwTrailer = append([]string{`siw: crc error\. .*`}, reconnects...)

// Whatever TCP makes of our FPDUs, Linux reads the right bytes.
func TestSplitFPDUs(t *testing.T) {
	t.Parallel()
	const odd, even = 3001, 3000 // with a pad of three bytes, and with none
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
				for _, p := range places {
					t.Run(fmt.Sprintf("crc-%s/%s", crc, p.name), func(t *testing.T) {
						var expected []string
						if p.trailer && crc == "on" {
							expected = siwTrailer
						}
						readSplit(t, g, s, p.size, p.at, expected)
					})
				}
			}
		})
	}
}

// readSplit lets the guest read a file while the first two FPDUs that carry it are cut.
func readSplit(t *testing.T, g *guest.Guest, s *server, size int, at func(fpdu []byte) int, expected []string) {
	t.Helper()
	tp, check := s.tapping(t)
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
	check(s.want) // of the FPDUs as they were before the cuts
	quiet(t, g, expected...)
}
