// Which servers are not told of a crash.

package fusefs

import (
	"strings"
	"testing"
)

// TestKernelMounts of NFSv3 from one server, whatever the way, and no others.
func TestKernelMounts(t *testing.T) {
	const before = "24 1 254:0 / / rw - ext4 /dev/vda rw\n"
	for line, want := range map[string]bool{
		"": false,
		"40 24 0:50 / /mnt rw,relatime shared:1 - nfs 10.0.0.1:/x rw,vers=3,proto=rdma,addr=10.0.0.1":            true,
		"40 24 0:50 / /mnt rw,relatime - nfs host:/a\\040b rw,vers=3,rsize=1048576,addr=10.0.0.1,mountproto=tcp": true,
		"40 24 0:50 / /mnt rw - nfs 10.0.0.11:/x rw,vers=3,addr=10.0.0.11":                                       false,
		"40 24 0:50 / /mnt rw - nfs4 10.0.0.1:/x rw,vers=4.2,addr=10.0.0.1":                                      false,
		"40 24 0:50 / /mnt rw - fuse.nfsrdma 10.0.0.1:/x rw,user_id=0":                                           false,
		"40 24 0:50 / /mnt rw - nfs 10.0.0.2:/x rw,vers=3,mountaddr=10.0.0.1,addr=10.0.0.2":                      false,
	} {
		if got := kernelMounts(strings.NewReader(before+line+"\n"), "10.0.0.1"); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
