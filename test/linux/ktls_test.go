// TLS in Linux's kernel, which the machine of the tests may lack: package ktls's tests in a guest.

package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestKernelTLS runs tests in the guest: all in transport/internal/ktls, and those in transport
// with both ends' sessions in the kernel. The guest's kernel must have counted sessions for each
// package.
func TestKernelTLS(t *testing.T) {
	enter(t, secureSeries)
	g := client(t, secureSeries)
	run(t, g, "modprobe tls")
	for pkg, only := range map[string]string{"transport/internal/ktls": ".", "transport": "KernelSession"} {
		path := filepath.Join(t.TempDir(), "ktls.test")
		build := exec.Command("go", "test", "-c", "-o", path, "github.com/nfsrdma/nfsrdma/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the tests of %s: %v\n%s", pkg, err, out)
		}
		const stat = "; cat /proc/net/tls_stat"
		before := sessionsOf(run(t, g, "true"+stat))
		out := run(t, g, "cd /tmp && "+intoGuest(t, g, path)+" -test.v -test.run "+only+"; echo status $?; rm ktls.test"+stat)
		if !strings.Contains(out, "\nstatus 0\n") || sessionsOf(out) == before {
			t.Errorf("%s in the guest:\n%s", pkg, out)
		}
	}
	t.Run("serve", func(t *testing.T) { serveKernelTLS(t, g) })
	quiet(t, g)
}

// serveKernel makes our server move sessions into the guest's kernel, and our client read 1 MiB.
// Meanwhile the kernel traces the server's system calls that send bytes.
const serveKernel = `
modprobe tls
mkdir -p /tmp/k/export && cd /tmp/k && export XDG_RUNTIME_DIR=/tmp/k
/tmp/nfsrdmad cert ca --dir /tmp/k && /tmp/nfsrdmad cert server 127.0.0.1 --dir /tmp/k || exit 1
dd if=/dev/urandom of=export/file bs=1M count=1 2> /dev/null
/tmp/nfsrdmad serve /tmp/k/export --addr 127.0.0.1 --rdma-port off --tcp-port 4049 --rpcbind off --locks off --trust-local --ephemeral-key \
	--tls-cert /tmp/k/127.0.0.1.crt --tls-key /tmp/k/127.0.0.1.key --xprtsec tls --tls-kernel on > log 2>&1 < /dev/null &
pid=$!
n=0; until ss -Hltn | grep -q ':4049 '; do n=$((n + 1)); [ $n -lt 6000 ] && [ -d /proc/$pid ] || { cat log; exit 1; }; sleep 0.1; done
cd /sys/kernel/tracing 2> /dev/null && [ -e trace ] || { mount -t tracefs tracefs /sys/kernel/tracing && cd /sys/kernel/tracing || exit 1; }
for call in write writev pwrite64 sendto sendmsg sendmmsg sendfile64 splice; do
	echo 'comm == "nfsrdmad" && ret > 0' > events/syscalls/sys_exit_$call/filter && echo 1 > events/syscalls/sys_exit_$call/enable || exit 1
done
/tmp/nfsrdma cat --xprtsec tls --cacert /tmp/k/ca.crt nfs://127.0.0.1:4049/tmp/k/export/file > /tmp/k/got
echo 0 > events/enable
cmp /tmp/k/got /tmp/k/export/file && echo same
cat trace
kill -INT $pid; wait $pid; echo status $?
cat /tmp/k/log; rm -r /tmp/k`

var syscallExit = regexp.MustCompile(`sys_(\w+) -> 0x([0-9a-f]+)`)

// serveKernelTLS: data of a READ leaves our server in clear by writev, from the buffers into which
// it was read, and by no other call: the kernel encrypts.
func serveKernelTLS(t *testing.T, g *guest.Guest) {
	t.Helper()
	intoGuest(t, g, program(t, "cmd/nfsrdmad"))
	intoGuest(t, g, program(t, "cmd/nfsrdma"))
	out := run(t, g, serveKernel)
	sums := map[string]int64{}
	for _, m := range syscallExit.FindAllStringSubmatch(out, -1) {
		n, err := strconv.ParseInt(m[2], 16, 64)
		must.Succeed(t, err)
		sums[m[1]] += n
	}
	t.Logf("bytes by system call: %v", sums)
	others := int64(0)
	for call, n := range sums {
		if call != "writev" {
			others += n
		}
	}
	const few = 64 << 10 // of the handshake, small replies and log lines
	if n := sums["writev"]; n < 1<<20 || n > 1<<20+few || others > few {
		t.Errorf("bytes by system call: %v; want 1 MiB by writev, and few by others", sums)
	}
	for _, want := range []string{"\nsame\n", "\nstatus 0\n", "kernel=true"} {
		if !strings.Contains("\n"+out, want) {
			t.Errorf("the guest lacks %q:\n%s", want, out)
		}
	}
}

// sessionsOf returns the line in tls_stat with the number of sessions that the kernel has sent in.
func sessionsOf(stat string) string {
	return regexp.MustCompile(`TlsTxSw\s+(\d+)`).FindString(stat)
}
