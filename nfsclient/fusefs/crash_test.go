// Servers that receive no notice of this machine's crash.

package fusefs

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// The number of a network namespace may be reused, but not its name.
func TestNetworksHaveNamesOfTheirOwn(t *testing.T) {
	if unix.Geteuid() != 0 {
		machine.Skip(t, "only root can make network namespaces")
	}
	numbers, names := map[string]bool{}, map[string]bool{}
	again := false
	for end := time.Now().Add(20 * time.Second); !again && time.Now().Before(end); {
		made := make(chan [2]string)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine, and with its namespace
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				made <- [2]string{err.Error(), err.Error()}
				return
			}
			number, _ := os.Readlink("/proc/thread-self/ns/net")
			made <- [2]string{number, network()}
		}()
		m := <-made
		if names[m[1]] || !strings.HasPrefix(m[1], "net:[") {
			t.Fatalf("the namespace %s is named %q, and others are %v", m[0], m[1], names)
		}
		again = numbers[m[0]]
		numbers[m[0]], names[m[1]] = true, true
	}
	if !again {
		t.Logf("of %d namespaces none has the number of another: nothing was to be told apart", len(names))
	}
}

// otherMounts finds the kernel's NFSv3 mounts from one server, over any transport, users' mounts,
// and no others.
func TestOtherMounts(t *testing.T) {
	const before = "24 1 254:0 / / rw - ext4 /dev/vda rw\n"
	for line, want := range map[string]error{
		"": nil,
		"40 24 0:50 / /mnt rw,relatime shared:1 - nfs 10.0.0.1:/x rw,vers=3,proto=rdma,addr=10.0.0.1":            errKernelMounts,
		"40 24 0:50 / /mnt rw,relatime - nfs host:/a\\040b rw,vers=3,rsize=1048576,addr=10.0.0.1,mountproto=tcp": errKernelMounts,
		"40 24 0:50 / /mnt rw - nfs 10.0.0.11:/x rw,vers=3,addr=10.0.0.11":                                       nil,
		"40 24 0:50 / /mnt rw - nfs4 10.0.0.1:/x rw,vers=4.2,addr=10.0.0.1":                                      nil,
		"40 24 0:50 / /mnt rw - fuse.nfsrdma 10.0.0.1:/x rw,user_id=0,group_id=0,allow_other":                    nil,
		"40 24 0:50 / /mnt rw - fuse.nfsrdma 10.0.0.1:/x rw,user_id=1000,group_id=1000":                          errUserMounts,
		"40 24 0:50 / /mnt rw - fuse.sshfs 10.0.0.1:/x rw,user_id=1000,group_id=1000":                            nil,
		"40 24 0:50 / /mnt rw - nfs 10.0.0.2:/x rw,vers=3,mountaddr=10.0.0.1,addr=10.0.0.2":                      nil,
		strings.Repeat("x", bufio.MaxScanTokenSize):                                                              bufio.ErrTooLong,
	} {
		if got := otherMounts(strings.NewReader(before+line+"\n"), "10.0.0.1"); !errors.Is(got, want) {
			t.Errorf("%.100q: %v, want %v", line, got, want)
		}
	}
}
