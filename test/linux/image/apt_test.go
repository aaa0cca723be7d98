// The kernels of the guests, by the versions in the archive.

package image

import (
	"strings"
	"testing"
)

// TestKernelBehindItsSource: the archive can have a source before its signed kernel. The guests
// take the newest kernel that has both.
func TestKernelBehindItsSource(t *testing.T) {
	images := map[string]string{
		"linux-image-6.1.0-55-amd64":          "6.1.192-1",
		"linux-image-6.1.0-56-amd64":          "6.1.192-2",
		"linux-image-6.1.0-56-cloud-amd64":    "6.1.192-2",
		"linux-image-6.1.0-57-amd64-unsigned": "6.1.192-3",
		"linux-image-6.12.117+deb12-amd64":    "6.12.117-1~deb12u1",
	}
	for _, c := range []struct {
		series, sources, release, version, kbuild string
	}{
		{"6.1", "6.1.192-3 6.1.192-2 6.1.192-1", "6.1.0-56-amd64", "6.1.192-2", "linux-kbuild-6.1"},
		{"6.1", "6.1.192-1", "6.1.0-55-amd64", "6.1.192-1", "linux-kbuild-6.1"},
		{"6.12", "6.12.117-1~deb12u1", "6.12.117+deb12-amd64", "6.12.117-1~deb12u1", "linux-kbuild-6.12.117+deb12"},
	} {
		k, err := newestKernel(c.series, strings.Fields(c.sources), images)
		if err != nil {
			t.Errorf("%s of sources %s: %v", c.series, c.sources, err)
		}
		if k.release != c.release || k.version != c.version || k.kbuild != c.kbuild {
			t.Errorf("%s of sources %s: got %s, %s, %s, want %s, %s, %s", c.series, c.sources, k.release, k.version, k.kbuild, c.release, c.version, c.kbuild)
		}
	}
	if k, err := newestKernel("6.1", []string{"6.1.192-3"}, images); err == nil {
		t.Errorf("a source without a kernel: got %s, want an error", k.release)
	}
}
