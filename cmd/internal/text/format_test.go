// Tests of sizes and modes.

package text

import (
	"io/fs"
	"testing"
)

func TestFormat(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt", fs.ModeSymlink | 0o777: "lrwxrwxrwx",
		fs.ModeSetuid | 0o655: "-rwSr-xr-x", fs.ModeDevice | fs.ModeCharDevice | 0o600: "crw-------",
	} {
		if got := ModeString(m); got != want {
			t.Errorf("%v is written %s, want %s", m, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func TestHumanSizeRoundsUp(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 1536: "1.5K", 1537: "1.6K", 10137: "9.9K", 10138: "10K",
		10239: "10K", 10240: "10K", 10241: "11K", 1047552: "1023K", 1047553: "1.0M", 1 << 20: "1.0M", 1<<20 + 1: "1.1M", 1 << 60: "1.0E", 1<<64 - 1: "16E"} {
		if got := HumanSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
