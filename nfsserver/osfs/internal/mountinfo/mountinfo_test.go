// Tables of mounts as the kernel writes them, with escapes and optional fields, and invalid lines.

package mountinfo

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	text := `21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
45 21 0:38 /a /mnt/two\040words\134 ro master:2 propagate_from:1 - overlay none\011x rw,lowerdir=/a\040b
60 21 0:40 / /srv rw - tmpfs tmpfs rw
no entry
x 21 0:40 / /srv rw - tmpfs tmpfs rw
61 21 0:41 / /short\04 rw - fuse.sshfs host:/ rw
62 21 0:42 / /srv rw - tmpfs
`
	want := []Entry{
		{21, unix.Mkdev(8, 1), "/", "ext4", "/dev/sda1", "rw,errors=remount-ro"},
		{45, unix.Mkdev(0, 38), `/mnt/two words\`, "overlay", "none\tx", "rw,lowerdir=/a b"},
		{60, unix.Mkdev(0, 40), "/srv", "tmpfs", "tmpfs", "rw"},
		{61, unix.Mkdev(0, 41), `/short\04`, "fuse.sshfs", "host:/", "rw"},
	}
	if got := Parse(text); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
