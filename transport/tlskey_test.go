// The limit for one key of a session: connections end before it, and no call is lost.

package transport

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// smallKey takes the place of keyBytes, a TLS key's limit in bytes: a test reaches it soon, but no
// handshake does.
const smallKey = 256 << 10

// countedCalls makes calls concurrently, each with data in one direction. The calls count, so that
// one which runs twice, or not at all, is seen.
func countedCalls(t *testing.T, c *Client, write bool) {
	t.Helper()
	const callers, calls, size = 4, 40, 20_000
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			data := make([]byte, size)
			for n := range calls {
				if write {
					errs[i] = c.Call(bg, testProc(tWrite), &writeArgs{data}, words{0}, nil, 0)
				} else {
					in := words{size}
					errs[i] = c.Call(bg, testProc(tRead), &in, &readRes{}, data, 0)
				}
				if errs[i] == nil {
					errs[i] = c.Call(bg, testProc(tCount), &words{1}, words{0}, nil, 0)
				}
				if errs[i] != nil {
					errs[i] = fmt.Errorf("call %d: %w", n, errs[i])
					return
				}
			}
		})
	}
	wg.Wait()
	must.Succeed(t, errs...)
	runs := words{0}
	must.Succeed(t, c.Call(bg, testProc(tCount), &words{1}, runs, nil, 0))
	if got, want := runs[0], uint32(callers*calls+1); got != want {
		t.Errorf("%d calls ran, want %d", got, want)
	}
}

// TestKeysHaveALimit: the server, or the client, ends a connection whose key has encrypted enough
// in either direction. Calls go on over another one, and each runs once.
func TestKeysHaveALimit(t *testing.T) {
	for _, n := range networks[2:] {
		for _, write := range []bool{false, true} {
			for _, server := range []bool{true, false} {
				if !server && n.name != "TLS" {
					continue // over RDMA the server ends it, because both ends are this package's
				}
				t.Run(fmt.Sprintf("%s, write %v, server %v", n.name, write, server), func(t *testing.T) {
					s := NewServer(ServerConfig{}, newTestProgram().program())
					var cfg ClientConfig
					if server {
						s.keyBytes = smallKey
					} else {
						cfg.keyBytes = smallKey
					}
					addr, done, err := n.serve(s, "127.0.0.1:0")
					must.Succeed(t, err)
					defer shutdown(t, s, done)
					c := n.client(t, addr, cfg)
					countedCalls(t, c, write)
					// 160 calls of 20 KB each
					if got := s.secured.done[XprtTLS].Load() + s.secured.done[XprtMTLS].Load(); got < 6 {
						t.Errorf("%d sessions, want at least 6", got)
					}
				})
			}
		}
	}
}
