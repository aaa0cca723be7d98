// Sizes.

package cli

import "testing"

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "4K": 4096, "256M": 256 << 20, "2g": 2 << 30} {
		if got, err := ParseSize(in); got != want || err != nil {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "M", "-1", "0", "1T", "1KK", "9999999999G", "x"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%s: %d", in, got)
		}
	}
}
