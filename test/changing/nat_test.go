// Clients behind one address: a router translates their addresses on the way to the server.

package changing

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// translate listens for connections and forwards each to target from its own address and port, as a
// router with NAT does. It returns its port.
func translate(t *testing.T, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					in.Close()
					out.Close()
				}()
			}
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Succeed(t, err)
	return port
}

// TestClientsBehindOneAddress: two mounts keep their calls and locks apart although the server sees
// one address and cannot call either.
func TestClientsBehindOneAddress(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			dir, rdma := t.TempDir(), fmt.Sprint(machine.Port(t))
			must.Succeed(t, os.Chmod(dir, 0o777))
			s := start(t, "", t.TempDir(), "--rdma-port", rdma, "--rdma", "iwarp", dir)
			tcp := translate(t, s.addr)
			ports := ",port=" + tcp
			if proto == "rdma" {
				ports = ",port=" + translate(t, "127.0.0.1:"+rdma)
			}
			options := "proto=" + proto + ports + ",mountport=" + tcp
			sides := []*mounted{s.mountWith("127.0.0.1", dir, options), s.mountWith("127.0.0.1", dir, options)}
			made, locked := make([]atomic.Int32, 100), atomic.Int32{}
			var both sync.WaitGroup
			for i, m := range sides {
				both.Go(func() {
					for n := range made {
						f, err := os.OpenFile(filepath.Join(m.dir, fmt.Sprint(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
						switch {
						case err == nil:
							made[n].Add(1)
							f.Close()
						case !os.IsExist(err):
							t.Errorf("client %d creates %d: %v, want EEXIST at most", i, n, err)
						}
					}
					f, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
					if err != nil {
						t.Errorf("os.OpenFile: %v", err)
						return
					}
					defer f.Close()
					for range 20 {
						lock := unix.Flock_t{Type: unix.F_WRLCK}
						if err := unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &lock); err != nil {
							t.Errorf("client %d locks: %v", i, err)
							return
						}
						if n := locked.Add(1); n != 1 {
							t.Errorf("%d clients hold the lock, want 1", n)
						}
						if _, err := fmt.Fprintf(f, "client %d\n", i); err != nil {
							t.Error(err)
						}
						locked.Add(-1)
						lock.Type = unix.F_UNLCK
						if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
							t.Errorf("client %d unlocks: %v", i, err)
						}
					}
				})
			}
			both.Wait()
			for n := range made {
				if got := made[n].Load(); got != 1 {
					t.Errorf("%d clients made file %d with O_EXCL, want 1", got, n)
				}
			}
			info, err := os.Stat(filepath.Join(dir, "log"))
			must.Succeed(t, err)
			if want := int64(40 * len("client 0\n")); info.Size() != want {
				t.Errorf("40 lines appended under locks have %d bytes, want %d", info.Size(), want)
			}
		})
	}
}
