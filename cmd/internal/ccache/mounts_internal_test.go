// Parsing of mountinfo, and the check on an open file.

package ccache

import "testing"

func TestFuseUser(t *testing.T) {
	const text = "22 1 8:1 / / rw - ext4 /dev/sda1 rw,user_id=5\n" +
		"30 22 0:40 / /tmp/a rw,nosuid shared:1 - fuse cache rw,user_id=1001,group_id=7,allow_other\n" +
		"31 22 0:41 / /tmp/b rw - fuse.sshfs a\\040b rw,user_id=0,group_id=0\n" +
		"32 22 0:42 / /tmp/c rw - fuse c rw\n" +
		"33 22 0:43 / /tmp/d rw - fuse d rw,user_id=99999999999\n" +
		"34 22 0:44 / /x rw - tmpfs user_id=5 rw\n" +
		"short\n\n - \n35 22 0:45"
	for device, want := range map[string]struct {
		uid   uint32
		found bool
	}{
		"0:40": {1001, true}, "0:41": {0, true}, "0:42": {}, "0:43": {uid: 1<<32 - 1}, "0:44": {}, "0:45": {}, "0:4": {}, "8:1": {}, "": {},
	} {
		uid, found := fuseUser(text, device)
		if uid != want.uid || found != want.found {
			t.Errorf("%s: got %d, %t, want %d, %t", device, uid, found, want.uid, want.found)
		}
	}
}

// TestOpenFileDecides: an open file is safe on FUSE only if root or its user has mounted the file
// system, and it is still mounted. By then the path may lead elsewhere.
func TestOpenFileDecides(t *testing.T) {
	for _, row := range []struct {
		by    uint32
		found bool
		want  bool
	}{{0, true, true}, {1000, true, true}, {4711, true, false}, {0, false, false}} {
		if got := safeFuse(row.by, row.found, 1000); got != row.want {
			t.Errorf("mounted by %d (found: %t): got %t, want %t", row.by, row.found, got, row.want)
		}
	}
}
