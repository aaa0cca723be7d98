// Tests of ParseSize.

package cli

import "testing"

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "4K": 4096, "256M": 256 << 20, "2g": 2 << 30, "7B": 7, "1024G": 1 << 40, "1099511627776": 1 << 40} {
		if got, err := ParseSize(in); got != want || err != nil {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "M", "-1", "0", "1T", "1KK", "9999999999G", "x", "8589934592G", "1025G", "1099511627777", "17179869184G", "4K x", "4 K", " 4", "4K\n", "1.5M", "0x10", "1e3", "4KB", "K4", "99999999999999999999"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%s: %d", in, got)
		}
	}
}
