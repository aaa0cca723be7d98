// The syndromes, compared with IBA's tables.

package packet

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// timers is the RNR NAK timer table, in hundredths of a millisecond.
var timers = [32]int{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
	6144, 8192, 12288, 16384, 24576, 32768, 49152}

// credits is the credit count table without the last code, which has no count.
var credits = [31]int{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
	8192, 12288, 16384, 24576, 32768}

func TestSyndromes(t *testing.T) {
	for code, want := range timers {
		s := RNR(uint8(code))
		if s.Kind() != KindRNR || s != Syndrome(0x20+code) || s.Wait() != time.Duration(want)*10*time.Microsecond {
			t.Errorf("RNR timer %d: %#x, %v", code, uint8(s), s.Wait())
		}
	}
	for code, want := range credits {
		s := ACK(uint8(code))
		if n, limited := s.Credits(); s.Kind() != KindACK || s != Syndrome(code) || n != want || !limited {
			t.Errorf("credits %d: %#x, %d, %v", code, uint8(s), n, limited)
		}
	}
	for n, code := 0, 0; n < 1<<17; n++ { // down to the next number with a code
		if code < len(credits)-1 && n == credits[code+1] {
			code++
		}
		if got := CreditCode(n); int(got) != code {
			t.Fatalf("%d credits have code %d, want %d", n, got, code)
		}
	}
	if n, limited := ACK(CreditUnlimited).Credits(); n != 0 || limited {
		t.Errorf("unlimited: %d, %v", n, limited)
	}
	for code := range NAKCode(32) {
		if s := NAK(code); s.Kind() != KindNAK || s != 0x60+Syndrome(code) || s.NAKCode() != code {
			t.Errorf("%v: %#x", code, uint8(s))
		}
	}
	must.Equal(t, "ACK(0xff).Kind()", ACK(0xff).Kind(), KindACK)
	must.Equal(t, "RNR(0xff).Kind()", RNR(0xff).Kind(), KindRNR)
	must.Equal(t, "NAK(0xff).Kind()", NAK(0xff).Kind(), KindNAK)
	for s, want := range map[Syndrome]string{
		0x1f: "ACK", 0x02: "ACK, credits 2", 0x21: "RNR NAK, 10µs", 0x60: "NAK, PSN sequence error", 0x61: "NAK, invalid request",
		0x62: "NAK, remote access error", 0x63: "NAK, remote operational error", 0x65: "NAK, code 5", 0x40: "syndrome 0x40", 0x9f: "syndrome 0x9f",
	} {
		if s.String() != want {
			t.Errorf("%#x is %q, want %q", uint8(s), s, want)
		}
	}
}
