// Many exports: more than a small descriptor limit allows, and more than one list or message holds.

package changing

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestManyExports: 1,500 directories are exported, listed, completed, checked, reloaded and
// mounted, over both transports. With few descriptors, as many are served as the descriptors allow.
func TestManyExports(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	const count = 1500
	base, dirs := t.TempDir(), []string{}
	for i := range count + 1 {
		dir := filepath.Join(base, fmt.Sprintf("directory-%04d", i))
		must.Succeed(t, os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "f"), []byte(dir), 0o644))
		dirs = append(dirs, dir)
	}
	for _, row := range []struct {
		name, shell string
		all         bool
	}{{"usual limit", "", true}, {"1,024 descriptors", "ulimit -n 1024;", false}} {
		t.Run(row.name, func(t *testing.T) {
			file, rdma := exportsFile(t, dirs[:count]...), fmt.Sprint(machine.Port(t))
			s := start(t, row.shell, t.TempDir(), "--rdma-port", rdma, "--rdma", "iwarp", "--exports", file)
			s.rdma = rdma
			served := dirs[count-1]
			if !row.all {
				for _, dir := range dirs[:count] {
					if s.has(dir, "f") {
						served = dir
						break
					}
				}
			}
			_, tcp, err := net.SplitHostPort(s.addr)
			must.Succeed(t, err)
			for proto, at := range map[string]string{"tcp": "nfs://127.0.0.1:" + tcp, "rdma": "nfsrdma://127.0.0.1:" + rdma} {
				run := func(args ...string) string {
					t.Helper()
					out, err := exec.Command(client, args...).CombinedOutput()
					if err != nil {
						t.Errorf("nfsrdma %s: %v: %s", strings.Join(args, " "), err, out)
					}
					return string(out)
				}
				if n := strings.Count(run("showmount", at), base+"/"); n != count {
					t.Errorf("showmount %s lists %d exports, want %d", at, n, count)
				}
				if n := strings.Count(run("__complete", "ls", at+base+"/"), "/directory-"); n != count {
					t.Errorf("completion of %s has %d exports, want %d", at, n, count)
				}
				if out := run("doctor", "--rdma-port", rdma, "--tcp-port", tcp, at+served); !strings.Contains(out, fmt.Sprintf("%d more", count-8)) || !strings.Contains(out, " 0 failed") {
					t.Errorf("doctor %s: %s", at, out)
				}
				m := s.mountAt("127.0.0.1", served, "proto="+proto)
				if b, err := os.ReadFile(filepath.Join(m.dir, "f")); err != nil || string(b) != served {
					t.Errorf("mounted over %s: %q, %v, want %q", proto, b, err, served)
				}
			}
			more := dirs[:count+1]
			if !row.all {
				more = []string{served, dirs[count]} // removed exports release descriptors
			}
			b, err := os.ReadFile(exportsFile(t, more...))
			must.Succeed(t, err, os.WriteFile(file, b, 0o600))
			s.reload()
			s.await("export that was added", func() bool { return s.has(dirs[count], "f") })
		})
	}
}
